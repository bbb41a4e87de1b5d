"""A GPU of which nothing is known but its peak."""

from dimsweep.engine import Program
from dimsweep.engine.rules import is_measured
from dimsweep.sweeper.config.schema import Config


def uncalibrated(config: Config, program: Program) -> list[str]:
    """Told where products are computed at the peak, which no GPU reaches."""
    if is_measured(program):
        return []
    kinds = {"npu": config.npu}
    kinds |= {f"other_npus[{i}].npu": other.npu for i, other in enumerate(config.other_npus)}
    return [
        f"{key}.flops is taken for what it reaches, so it computes at its peak: no calibration is "
        f"known; {key}.kernels names a GPU that was measured, {key}.efficiency a share of the peak"
        for key, npu in kinds.items()
        if npu.efficiency == 1
        and not any((npu.kernels, npu.matmul_efficiency, npu.systolic, npu.measured))
    ]
