"""Measured kernels: cases timed by `dimsweep measure`, and kernels in profiles of PyTorch."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dimsweep.engine import Compute, DimsweepError, units
from dimsweep.engine.formats import explained, read_bytes, read_text
from dimsweep.engine.formats.pytorch import HostOp, Profile, read_host, read_profile
from dimsweep.engine.workload import Attention, Kernel, MatMul
from dimsweep.sweeper.config.schema import Config

# Bytes between a kernel and memory for each value of 2 bytes.
_PASSES = {"copy": 4, "add": 6, "gelu": 4, "silu_times": 10, "rms_norm": 4, "layer_norm": 4}
_Size = Annotated[int, Field(gt=0, le=2**32)]
_Time = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _TimedCase(BaseModel):
    ms: _Time
    #: The resource that bounds its time: product, memory or launch.
    bound: ClassVar[str] = "product"

    @property
    def seconds(self) -> float:
        """Measured time of the kernel."""
        return self.ms / 1e3


class Product(_TimedCase):
    """A measured matrix product, m x k by k x n."""

    kind: Literal["product"] = "product"
    m: _Size
    k: _Size
    n: _Size
    precision: Literal["bf16", "fp8"] = "bf16"

    def __str__(self) -> str:
        return f"product, {self.m} x {self.k} x {self.n} in {self.precision}"

    def build_kernel(self) -> Kernel:
        """Return the kernel to simulate."""
        product = MatMul(1, self.m, self.k, self.n)
        n_bytes = 2.0 * (self.m * self.k + self.k * self.n + self.m * self.n)
        narrow = "" if self.precision == "bf16" else self.precision
        return Kernel("", product.flops, n_bytes, product, precision=narrow, launched=False)


class FusedAttention(_TimedCase):
    """A measured kernel of causal attention: ``heads`` of ``size`` over ``sequence`` tokens."""

    kind: Literal["attention"]
    batch: _Size
    heads: _Size
    sequence: _Size
    size: _Size
    direction: Literal["forward", "backward"]

    def __str__(self) -> str:
        return f"attention, {self.batch} x {self.heads} heads of {self.sequence}, {self.direction}"

    def build_kernel(self) -> Kernel:
        """Return the kernel to simulate."""
        heads, n = self.batch * self.heads, self.sequence
        back = self.direction == "backward"
        flops = 2.0 * heads * n * n * self.size * (2.5 if back else 1.0)
        fused = Attention(heads, n, n, self.size, True, back)
        return Kernel("", flops, 0.0, MatMul(2 * heads, n, self.size, n), fused, launched=False)


class Elementwise(_TimedCase):
    """A measured elementwise kernel on ``tokens`` times ``hidden`` values."""

    bound: ClassVar[str] = "memory"
    kind: Literal["elementwise"]
    op: Literal["copy", "add", "gelu", "silu_times", "rms_norm", "layer_norm"]
    tokens: _Size
    hidden: _Size

    def __str__(self) -> str:
        return f"{self.op} of {self.tokens} x {self.hidden}"

    def build_kernel(self) -> Kernel:
        """Return the kernel to simulate."""
        n_bytes = float(_PASSES[self.op] * self.tokens * self.hidden)
        return Kernel("", 0.0, n_bytes, launched=False)


class Launch(BaseModel):
    """A measured empty kernel: the time from its call to its end."""

    bound: ClassVar[str] = "launch"
    kind: Literal["launch"]
    end_us: _Time

    @property
    def seconds(self) -> float:
        """Measured time of the kernel."""
        return self.end_us / 1e6

    def __str__(self) -> str:
        return "launch"

    def build_kernel(self) -> Kernel:
        """Return the kernel to simulate."""
        return Kernel("", 0.0, 64.0)


Case = Product | FusedAttention | Elementwise | Launch
_CASE: TypeAdapter[Case] = TypeAdapter(Annotated[Case, Field(discriminator="kind")])
_KINDS = ("product", "attention", "elementwise", "launch")


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases in a file of ``dimsweep measure``; skip failed ones and ones without a model.

    Raises :class:`DimsweepError` naming the line of an invalid case.
    """
    for number, line in enumerate(read_text(path, "file").splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"invalid case: {error}"
            raise DimsweepError(problem, where=where, code="bad-syntax") from error
        if not isinstance(fields, dict):
            hint = 'a JSON object such as {"kind": "product"}'
            raise DimsweepError("invalid case", where=where, hint=hint, code="bad-syntax")
        if "error" in fields or fields.get("kind") not in _KINDS or _is_unmodelled(fields):
            continue
        try:
            yield _CASE.validate_python(fields)
        except ValidationError as error:
            fault = explained(error, missing="add it to the line")
            problem = f"{fault.where}: {fault.problem}"
            raise DimsweepError(problem, where=where, hint=fault.hint, code=fault.code) from error


def _is_unmodelled(fields: dict[str, Any]) -> bool:
    """Return whether the simulator has no kernel for a case's precision or operation."""
    if fields["kind"] == "product":
        return fields.get("precision") in ("fp16", "fp32", "tf32")
    return fields["kind"] == "elementwise" and str(fields.get("op")) not in _PASSES


@dataclass(frozen=True)
class CaseTime:
    """Predicts the seconds of a measured kernel on a cluster's NPU."""

    case: Case

    def __call__(self, config: Config) -> float:
        kernel = self.case.build_kernel()
        npu = config.npu.build("bf16", kernel.precision)
        return npu.duration(Compute(kernels=(kernel,))) / units.PICOSECONDS


# Classes of kernels by their names, in this order; all others count as memory.
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
class ProfiledStep:
    """Measured seconds of a profiled training step and of its kernels."""

    step: float
    products: float  # attention included
    memory: float  # all other kernels that compute
    communication: float  # waiting for other ranks included
    idle: float  # no kernel on the device
    kernels: int  # their number


def read_profiled(path: Path) -> ProfiledStep:
    """Return the mean training step of a profile.

    Steps are those that the profile marks, or else all from the first to the last kernel. Raises
    :class:`DimsweepError` for a profile without kernels of a device.
    """
    profile = read_profile(path)
    if not profile.kernels:
        raise DimsweepError(
            "the profile has no kernel of a device",
            where=str(path),
            hint="profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
            code="missing",
        )
    kernels = [each for each in profile.kernels if each.span.duration > 0]
    start, end = kernels[0].span.start, max(each.span.end for each in kernels)
    n = _count_steps(path)
    parts = {"products": 0.0, "memory": 0.0, "communication": 0.0}
    for kernel in kernels:
        parts[_classify_kernel(kernel.name)] += kernel.span.duration
    seconds = {name: us / n / 1e6 for name, us in parts.items()}
    idle = (end - start - _measure_busy_time(profile)) / n / 1e6
    return ProfiledStep((end - start) / n / 1e6, **seconds, idle=idle, kernels=len(kernels))


def _classify_kernel(name: str) -> str:
    if _COMMUNICATION.search(name):
        return "communication"
    if _MEMORY.search(name):
        return "memory"
    return "products" if _PRODUCTS.search(name) else "memory"


def _measure_busy_time(profile: Profile) -> float:
    """Return the microseconds in which at least one kernel runs."""
    total, until = 0.0, -1e300
    for kernel in profile.kernels:
        total += max(0.0, kernel.span.end - max(until, kernel.span.start))
        until = max(until, kernel.span.end)
    return total


def _count_steps(path: Path) -> int:
    """Return the number of steps that a profile marks (option ``schedule``), at least 1."""
    marks = re.findall(rf'"{_STEP}#(\d+)"'.encode(), read_bytes(path, "profile"))
    return max(1, len(set(marks)))


class ProfiledProduct(NamedTuple):
    """An m x k by k x n product in 16 bits, with the median seconds of its runs."""

    m: int
    k: int
    n: int
    seconds: float


def read_products(profile: Path, trace: Path) -> list[ProfiledProduct]:
    """Return the matrix products of a profile, with shapes from the same step's execution trace.

    The number of an operator's call joins the trace with the kernels of the profile.  Raises
    :class:`DimsweepError` for an invalid execution trace.
    """
    operators = read_host(trace).operators.values()
    shapes = {op.call: shape for op in operators if (shape := _find_product_shape(op)) is not None}
    runs: dict[int, float] = {}
    for kernel in read_profile(profile).kernels:
        if kernel.call is not None and kernel.call in shapes:
            runs[kernel.call] = runs.get(kernel.call, 0.0) + kernel.span.duration / 1e6
    times: dict[tuple[int, int, int], list[float]] = {}
    for call, seconds in runs.items():
        times.setdefault(shapes[call], []).append(seconds)
    return [
        ProfiledProduct(*shape, median(each))
        for shape, each in sorted(times.items())
        if min(each) > 0
    ]


def _find_product_shape(op: HostOp) -> tuple[int, int, int] | None:
    """Return (m, k, n) if an operator is a matrix product in 16 bits, else None."""
    if op.name not in ("aten::mm", "aten::addmm") or not re.search("BFloat16|Half", str(op.types)):
        return None
    try:
        (m, k), (_, n) = op.shapes[op.name == "aten::addmm" :][:2]
    except (TypeError, ValueError):
        return None  # the trace has no shapes of two matrices
    if not all(type(size) is int and 0 < size <= 2**32 for size in (m, k, n)):
        return None
    return m, k, n
