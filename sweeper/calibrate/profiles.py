"""What a profile of PyTorch's says of one step: how long it took, and its kernels by kind."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_bytes
from dimsweep.engine.formats.pytorch import HostOp, Profile, read_host, read_profile

# Kernels by their names, in this order; all others count as memory.
_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|nvshmem|deep_?ep|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|"
    r"all_?to_?all",
    re.I,
)
# Inductor names its fused kernels by operators that are not in them, as triton_poi_fused_addmm.
_MEMORY = re.compile(
    r"triton_(?!tem)[a-z]+_fused|cudnn::(?:ops|bn)|nchwToNhwc|nhwcToNchw|im2col|causal_conv|repack",
    re.I,
)
# Libraries by vendor: cuBLAS, cuDNN and CUTLASS; rocBLAS and hipBLASLt (Tensile's Cijk), MIOpen and
# AOTriton; Inductor's templates (triton_tem, triton_mm); Marlin and Machete; DeepGEMM has gemm.
_PRODUCTS = re.compile(
    r"gemm|cutlass(?!::(?:half|bfloat16|tfloat32|float)_)|nvjet|xmma|cudnn|wgmma|winograd|"
    r"Cijk_|contraction|bwd_kernel_d[kq]|flash|fmha|sdpa|attention|attn|(?<![a-z])mla_|matmul|"
    r"conv(?!ert)|triton_(?:tem|b?mm|addmm)|scaled_mm|grouped_mm|fused_moe_kernel|marlin|machete",
    re.I,
)
_STEP = "ProfilerStep"


@dataclass(frozen=True)
class Profiled:
    """Seconds of a step, of its products and attention, of all other kernels, and of collectives
    (which wait for others, too); ``idle`` while nothing ran on the device, and how many kernels."""

    step: float
    products: float
    memory: float
    communication: float
    idle: float
    kernels: int


def read_profiled(path: Path) -> Profiled:
    """The step of a profile: its steps' mean, where it marks them, else from the first kernel to
    the last.  Raises :class:`DimsweepError` for a profile without kernels of a device."""
    profile = read_profile(path)
    if not profile.kernels:
        raise DimsweepError(
            "no kernel of a device is in it",
            where=str(path),
            hint="profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
        )
    kernels = [each for each in profile.kernels if each.span.duration > 0]
    start, end = kernels[0].span.start, max(each.span.end for each in kernels)
    n = _steps(path)
    parts = {"products": 0.0, "memory": 0.0, "communication": 0.0}
    for kernel in kernels:
        parts[_kind(kernel.name)] += kernel.span.duration
    told = {name: us / n / 1e6 for name, us in parts.items()}
    busy = _busy(profile)
    return Profiled(
        (end - start) / n / 1e6, **told, idle=(end - start - busy) / n / 1e6, kernels=len(kernels)
    )


def _kind(name: str) -> str:
    if _COMMUNICATION.search(name):
        return "communication"
    if _MEMORY.search(name):
        return "memory"
    return "products" if _PRODUCTS.search(name) else "memory"


def _busy(profile: Profile) -> float:
    """Microseconds in which at least one kernel runs."""
    total, until = 0.0, -1e300
    for kernel in profile.kernels:
        total += max(0.0, kernel.span.end - max(until, kernel.span.start))
        until = max(until, kernel.span.end)
    return total


def _steps(path: Path) -> int:
    """How many steps a profile marks: ``schedule`` names them; 1 where it does not."""
    marks = re.findall(rf'"{_STEP}#(\d+)"'.encode(), read_bytes(path, "profile"))
    return max(1, len(set(marks)))


class Product(NamedTuple):
    """An m x k by k x n product in 16 bits, and the median of its runs' seconds."""

    m: int
    k: int
    n: int
    seconds: float


def read_products(profile: Path, trace: Path) -> list[Product]:
    """The products of a profile whose shapes the execution trace of the same step has.

    An operator of the trace has the number of its call, by which the profile knows the kernels that
    it launched.  Raises :class:`DimsweepError` for what is no execution trace.
    """
    operators = read_host(trace).operators.values()
    shapes = {op.call: shape for op in operators if (shape := _shape(op)) is not None}
    runs: dict[int, float] = {}
    for kernel in read_profile(profile).kernels:
        if kernel.call is not None and kernel.call in shapes:
            runs[kernel.call] = runs.get(kernel.call, 0.0) + kernel.span.duration / 1e6
    times: dict[tuple[int, int, int], list[float]] = {}
    for call, seconds in runs.items():
        times.setdefault(shapes[call], []).append(seconds)
    return [Product(*shape, median(each)) for shape, each in sorted(times.items()) if min(each) > 0]


def _shape(op: HostOp) -> tuple[int, int, int] | None:
    """Return (m, k, n) of a product in 16 bits, and None for any other operator."""
    if op.name not in ("aten::mm", "aten::addmm") or not re.search("BFloat16|Half", str(op.types)):
        return None
    try:
        (m, k), (_, n) = op.shapes[op.name == "aten::addmm" :][:2]
    except (TypeError, ValueError):
        return None  # the trace has no shapes of two matrices
    if not all(type(size) is int and 0 < size <= 2**32 for size in (m, k, n)):
        return None
    return m, k, n
