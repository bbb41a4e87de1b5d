"""Plans that fit a GPU's memory by so little that PyTorch's cache may not find room."""

from dimsweep.engine import Program, units
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model


def tight_memory(config: Config, program: Program) -> list[str]:
    """Told where what the cache may reserve is more than a GPU has.  Only of training, on GPUs
    whose kernels were measured: others need not run PyTorch."""
    workload, npu, need = config.workload, config.npu, program.workload.footprint
    if not isinstance(workload, Model) or workload.plan.task != "training":
        return []
    if need is None or npu.memory is None or not npu.kernels:
        return []
    own = float(npu.memory)
    if not need.total <= own < need.reserved:
        return []
    total, reserved, has = map(units.format_bytes, (need.total, need.reserved, own))
    return [
        f"memory: {total} of {has} are counted, but PyTorch's cache may reserve {reserved} for "
        "them, which was 15 % idle in the mean of eight models; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True keeps less idle, and a smaller "
        "workload.plan.micro_batch or workload.plan.recompute needs less; npu.headroom=0.15 "
        "refuses such plans"
    ]
