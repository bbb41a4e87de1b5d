"""A GPU of which nothing is known but its peak."""

from engine import Program
from engine.rules import is_measured
from sweeper.config.schema import Config


def uncalibrated(config: Config, program: Program) -> list[str]:
    """Told where products are computed at the peak, which no GPU reaches."""
    npu = config.npu
    known = (npu.kernels, npu.matmul_efficiency, npu.systolic, npu.measured)
    if any(each is not None for each in known) or npu.efficiency < 1 or is_measured(program):
        return []
    return [
        "npu.flops is taken for what it reaches, so it computes at its peak: no calibration is "
        "known; npu.kernels names a GPU that was measured, npu.efficiency a share of the peak"
    ]
