"""The single kernels that ``dimsweep measure`` timed, and the kernels of the model for them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dimsweep.engine import Compute, DimsweepError, units
from dimsweep.engine.formats import explained, read_text
from dimsweep.engine.workload import Attention, Kernel, MatMul
from dimsweep.sweeper.config.schema import Config

# Bytes that pass between a kernel and memory for each of its values of 2 bytes.
_PASSES = {"copy": 4, "add": 6, "gelu": 4, "silu_times": 10, "rms_norm": 4, "layer_norm": 4}
_Size = Annotated[int, Field(gt=0, le=2**32)]
_Time = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Timed(BaseModel):
    ms: _Time

    @property
    def seconds(self) -> float:
        """What was measured."""
        return self.ms / 1e3


class Product(_Timed):
    """An m x k by k x n product."""

    kind: Literal["product"] = "product"
    m: _Size
    k: _Size
    n: _Size
    precision: Literal["bf16", "fp8"] = "bf16"

    @property
    def bound(self) -> str:
        """What its time is bound by."""
        return "product"

    def __str__(self) -> str:
        return f"product, {self.m} x {self.k} x {self.n} in {self.precision}"

    def kernel(self) -> Kernel:
        """As the model has it."""
        product = MatMul(1, self.m, self.k, self.n)
        n_bytes = 2.0 * (self.m * self.k + self.k * self.n + self.m * self.n)
        narrow = "" if self.precision == "bf16" else self.precision
        return Kernel("", product.flops, n_bytes, product, precision=narrow, launched=False)


class FusedAttention(_Timed):
    """Causal attention of ``heads`` of ``size`` over ``sequence`` tokens."""

    kind: Literal["attention"]
    batch: _Size
    heads: _Size
    sequence: _Size
    size: _Size
    direction: Literal["forward", "backward"]

    @property
    def bound(self) -> str:
        """What its time is bound by."""
        return "product"

    def __str__(self) -> str:
        return f"attention, {self.batch} x {self.heads} heads of {self.sequence}, {self.direction}"

    def kernel(self) -> Kernel:
        """As the model has it."""
        heads, n = self.batch * self.heads, self.sequence
        back = self.direction == "backward"
        flops = 2.0 * heads * n * n * self.size * (2.5 if back else 1.0)
        fused = Attention(heads, n, n, self.size, True, back)
        return Kernel("", flops, 0.0, MatMul(2 * heads, n, self.size, n), fused, launched=False)


class Elementwise(_Timed):
    """A kernel of ``tokens`` times ``hidden`` values."""

    kind: Literal["elementwise"]
    op: Literal["copy", "add", "gelu", "silu_times", "rms_norm", "layer_norm"]
    tokens: _Size
    hidden: _Size

    @property
    def bound(self) -> str:
        """What its time is bound by."""
        return "memory"

    def __str__(self) -> str:
        return f"{self.op} of {self.tokens} x {self.hidden}"

    def kernel(self) -> Kernel:
        """As the model has it."""
        n_bytes = float(_PASSES[self.op] * self.tokens * self.hidden)
        return Kernel("", 0.0, n_bytes, launched=False)


class Launch(BaseModel):
    """A kernel with nothing to do, from the call to its end."""

    kind: Literal["launch"]
    end_us: _Time

    @property
    def bound(self) -> str:
        """What its time is bound by."""
        return "launch"

    @property
    def seconds(self) -> float:
        """What was measured."""
        return self.end_us / 1e6

    def __str__(self) -> str:
        return "launch"

    def kernel(self) -> Kernel:
        """As the model has it."""
        return Kernel("", 0.0, 64.0)


Case = Product | FusedAttention | Elementwise | Launch
_CASE: TypeAdapter[Case] = TypeAdapter(Annotated[Case, Field(discriminator="kind")])
_KINDS = ("product", "attention", "elementwise", "launch")


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file of ``dimsweep measure``, but for those that failed, which say so
    themselves, and those of which the model has no kernel.

    Raises :class:`DimsweepError` with the line that is no case.
    """
    for number, line in enumerate(read_text(path, "file").splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DimsweepError(f"this is no case: {error}", where=where) from error
        if not isinstance(told, dict):
            raise DimsweepError("this is no case", where=where, hint='such as {"kind": "product"}')
        if "error" in told or told.get("kind") not in _KINDS or _is_of_no_kernel(told):
            continue
        try:
            yield _CASE.validate_python(told)
        except ValidationError as error:
            fault = explained(error, missing="add it to the line")
            raise DimsweepError(
                f"{fault.where}: {fault.what}", where=where, hint=fault.hint
            ) from error


def _is_of_no_kernel(told: dict[str, Any]) -> bool:
    """Of a precision, or an operation, that the model does not tell apart."""
    if told["kind"] == "product":
        return told.get("precision") in ("fp16", "fp32", "tf32")
    return told["kind"] == "elementwise" and str(told.get("op")) not in _PASSES


@dataclass(frozen=True)
class TimeOfCase:
    """Seconds of a single kernel on a cluster's NPU."""

    case: Case

    def __call__(self, config: Config) -> float:
        kernel = self.case.kernel()
        npu = config.npu.build("bf16", kernel.precision)
        return npu.duration(Compute(kernels=(kernel,))) / units.PICOSECONDS
