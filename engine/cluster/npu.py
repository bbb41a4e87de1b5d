"""The compute side of an NPU: a roofline, refined by measured kernels or a systolic array."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from dimsweep.engine.cluster.kernel_times import KernelTimes
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.settings import Bounds, Count, Index, Positive, Share, check_settings
from dimsweep.engine.units import (
    BANDWIDTH,
    BYTES,
    COMPUTE_RATE,
    FREQUENCY,
    MAX_PICOSECONDS,
    PICOSECONDS,
    TIME,
    Duration,
)
from dimsweep.engine.workload.graph import ATTENTION_BACKWARD, Compute, Kernel, MatMul

# --- matrix products beyond the roofline ----------------------------------------------------------


_DIGITS = 6  # of a mean number of rows that is rounded up, whatever its last bits are


@dataclass(frozen=True)
class ShareCurve:
    """The share of a peak that is reached, by size: FLOPs of a matrix product, or nodes.

    ``knots`` are pairs of size and share, by rising size; between them the share is linear in the
    logarithm of the size, outside them the nearest knot applies.
    """

    knots: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.knots]
        if not self.knots or sizes != sorted(set(sizes)) or sizes[0] <= 0:
            raise DimsweepError(
                "the first numbers of the pairs must be positive and rise from pair to pair",
                hint="such as [[2, 0.9], [4, 0.4]]",
                code="invalid",
            )
        for size, share in self.knots:
            if not 0 < share <= 1:
                problem = f"the share {share:g} at {size:g}; it must be more than 0 and at most 1"
                raise DimsweepError(problem, code="out-of-range")

    def evaluate(self, size: float) -> float:
        right = bisect_right(self.knots, (size, math.inf))
        if right == 0:
            return self.knots[0][1]
        if right == len(self.knots):
            return self.knots[-1][1]
        (low, a), (high, b) = self.knots[right - 1 : right + 1]
        return a + (b - a) * math.log(size / low) / math.log(high / low)


class Dataflow(StrEnum):
    """The operand of a product that stays in the array."""

    OUTPUT_STATIONARY = "output_stationary"
    WEIGHT_STATIONARY = "weight_stationary"
    INPUT_STATIONARY = "input_stationary"


@dataclass(frozen=True)
class SystolicArray:
    """``arrays`` arrays of ``rows`` x ``columns`` multipliers at ``clock`` Hz.

    Samajdar et al., "A systematic methodology for characterizing scalability of DNN accelerators
    using SCALE-Sim" (ISPASS 2020): a product is cut into folds, and each fold occupies the whole
    array, even if parts are idle.  With R rows, C columns and T steps in time, a fold takes
    2 R + C + T - 2 cycles if weights or inputs stay (R cycles load them), and R + C + T - 2 cycles
    if outputs stay, because nothing is loaded.
    """

    rows: Count
    columns: Count
    clock: Annotated[float, FREQUENCY, Bounds(above=0)]
    dataflow: Dataflow = Dataflow.WEIGHT_STATIONARY
    arrays: Count = 1

    def __post_init__(self) -> None:
        check_settings(self)

    def cycles(self, product: MatMul) -> int:
        """Return the clock cycles of a matrix product; a partly filled fold counts fully."""
        products, m, k, n = (math.ceil(round(size, _DIGITS)) for size in product[:4])
        spatial_rows, spatial_columns, temporal = {
            Dataflow.OUTPUT_STATIONARY: (m, n, k),
            Dataflow.WEIGHT_STATIONARY: (k, n, m),
            Dataflow.INPUT_STATIONARY: (k, m, n),
        }[self.dataflow]
        folds = products * -(-spatial_rows // self.rows) * -(-spatial_columns // self.columns)
        loads = 1 if self.dataflow is Dataflow.OUTPUT_STATIONARY else 2
        each = loads * self.rows + self.columns + temporal - 2
        return -(-folds // self.arrays) * each - 1  # counted from cycle 0, as SCALE-Sim does

    def picoseconds(self, product: MatMul) -> float:
        """Return the time (ps) of a matrix product on the arrays."""
        return self.cycles(product) / self.clock * PICOSECONDS


# --- NPUs -----------------------------------------------------------------------------------------


_MEASURED = "bf16"  # the precision that every GPU was measured in
_ALIGNED = 8  # values of two bytes, so that a row begins where tensor cores can load it
_DURATION = Bounds(at_least=0, at_most=MAX_PICOSECONDS)


@dataclass(frozen=True)
class Npu:
    """Peak FLOP/s and memory bytes/s; an operator takes the longer of the two times (roofline).

    Williams, Waterman, Patterson, "Roofline" (CACM 2009).  Models of single kernels refine
    it: measured durations, else measured kernels of a GPU, else the efficiency of matrix products
    or a systolic array.

    Batched products whose rows are not a multiple of 16 bytes long, such as the scores of attention
    with odd head sizes, miss the tensor cores (NVIDIA, "Matrix multiplication background",
    requirements of tensor cores).  They run at ``plain_flops`` at most, if given.
    Products in a ``precision`` that was not measured take ``relative_time`` times as long as in
    bf16 where that is given (TF32), else they are computed at the peak.  Those of narrower
    precision, which an operator names, take ``relative_time`` times as long as in ``precision``
    where that is given, else what was measured, else what the peak in ``narrow`` makes of them;
    ``narrow`` is also the peak that such products are compared with (:meth:`peak`).
    """

    #: Peak rate of dense kernels: one, or a mapping with one for each precision.
    flops: Annotated[float, COMPUTE_RATE, Bounds(above=0)] | None = None
    #: Peak rate of memory.
    memory_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] | None = None
    #: Peak rate without tensor cores.
    plain_flops: Annotated[float, COMPUTE_RATE, Bounds(above=0)] | None = None
    #: Share of the peak that dense kernels reach. With `kernels`: share of the measured speed that
    #: a GPU sustains over hours.
    efficiency: Share = 1.0
    #: Rate at which an NPU reduces received data during a collective; null: reductions take no time
    #: of their own.
    reduce_bandwidth: Annotated[float, BANDWIDTH, Bounds(above=0)] | None = None
    #: Share of the memory bandwidth that kernels reach.
    memory_efficiency: Share = 1.0
    #: Efficiency of matrix products by their size, in pairs such as [10 GFLOP, 0.6].
    matmul_efficiency: ShareCurve | None = None
    #: A systolic array that computes products instead of the peak: its rows, columns, clock,
    #: dataflow and arrays.
    systolic: SystolicArray | None = None
    #: Rows and columns of a matrix unit. Attention whose heads are smaller uses only a part of it.
    #: 0: attention always uses the whole unit.
    matrix_unit: Index = 0
    #: Time before each kernel.
    launch: Annotated[int, TIME, _DURATION] = Duration(0, "0 ns")
    #: Time in which the host issues a kernel. Kernels wait for it if it falls behind.
    host: Annotated[int, TIME, _DURATION] = Duration(0, "0 ns")
    #: Time before a kernel that a CUDA graph launches; `launch` if that is less. The host does not
    #: issue such kernels.
    graph_launch: Annotated[int, TIME, _DURATION] = Duration(3_000_000, "3 us")
    #: Measured durations by the kernel's name, instead of all else.
    measured: Mapping[str, int] | None = None
    #: Measured times of products and fused attention.
    kernels: KernelTimes | None = None
    #: Time of fused attention relative to the measured kernels, or to its FLOPs without `kernels`,
    #: for slower attention kernels.
    attention_time: Positive = 1.0
    #: Time of attention's gradients relative to attention.
    attention_backward: Positive = ATTENTION_BACKWARD
    #: Precision of operators that name no narrower one.
    precision: str = "bf16"
    #: Peak rate in each narrower precision.
    narrow: Mapping[str, float] = field(default_factory=dict)
    #: Time of a product in a narrow precision, or in tf32, relative to one in bf16.
    relative_time: Mapping[str, float] = field(default_factory=dict)
    #: Capacity of the memory.
    memory: Annotated[float, BYTES, Bounds(above=0)] | None = None
    #: Speed of a slower NPU relative to a healthy one: computations take 1/`speed` as long,
    #: reductions during a collective do not change.
    speed: Share = 1.0
    #: Share of an overlapped collective's bytes that moves while kernels run. The NPU computes
    #: nothing while the rest moves.
    overlap: Share = 1.0
    #: Share of the memory that plans leave free.
    headroom: Annotated[float, Bounds(at_least=0, below=1)] = 0.0

    def __post_init__(self) -> None:
        check_settings(self)
        known = {"a systolic array": self.systolic, "a measured GPU": self.kernels}
        known = {what: model for what, model in known.items() if model is not None}
        if known and self.matmul_efficiency is not None:
            raise DimsweepError(
                f"{next(iter(known))} determines the efficiency of products",
                where="matmul_efficiency",
                hint="leave one of them out",
                code="conflict",
            )
        if len(known) == 2:
            problem = "give a systolic array or a measured GPU, not both"
            raise DimsweepError(problem, where="kernels", code="conflict")

    @property
    def usable_memory(self) -> float | None:
        """Bytes of memory that a workload may fill; None: no limit."""
        return None if self.memory is None else self.memory * (1 - self.headroom)

    def duration(self, work: Compute) -> int:
        """Return the time (ps) of operator ``work``, without delay by its launch from the host.

        Raises :class:`DimsweepError` if the time needs a rate that the NPU does not state.
        """
        return self.issued_duration(work, 0)[0]

    def issued_duration(self, work: Compute, lead: int) -> tuple[int, int]:
        """Return the time (ps) of an operator with launch overhead, and the host's new lead (ps).

        The host begins to launch the operator ``lead`` ps before it can start.  The NPU waits for a
        kernel that is not launched yet; during long kernels the host gets ahead, and after a kernel
        that it waits for it has no lead.
        """
        if work.duration is not None:
            duration = work.duration
            if self.speed != 1 and not work.on_host:
                duration = round(duration / self.speed)
            return duration, lead + duration
        kernels = _kernels(work)
        issues = self.host if self.measured is None else 0
        picoseconds = 0.0
        for kernel in kernels:
            time = self._kernel_time(kernel)
            if issues and time and kernel.launched and not kernel.graphed:
                wait = max(0, issues - lead)
                picoseconds += wait
                lead += wait - issues
            picoseconds += time
            lead = 0 if kernel.awaited else lead + round(time)
        if picoseconds > MAX_PICOSECONDS:
            problem = (
                f"an operator takes {picoseconds / PICOSECONDS:.3g} s; it must be 53 days or less"
            )
            raise DimsweepError(problem, where="npu", code="out-of-range")
        return int(picoseconds + 0.5), lead

    def peak(self, flops: float, narrow: Mapping[str, float]) -> float | None:
        """Return the peak FLOP/s for a mix of precisions; None if the NPU states no peak.

        ``flops`` is the number of FLOPs to compute, and ``narrow`` the number of them in each
        narrower precision, which is computed at its own peak if that is stated.
        """
        faster = {each: n for each, n in narrow.items() if n and each in self.narrow}
        if self.flops is None or not faster:
            return self.flops
        seconds = (flops - sum(faster.values())) / self.flops
        return flops / (seconds + sum(n / self.narrow[each] for each, n in faster.items()))

    def memory_bound_time(self, work: Compute) -> int:
        """Return the ps of :meth:`duration` that kernels limited by memory bandwidth take."""
        if work.duration is not None or self.measured is not None:
            return 0
        bound = [
            kernel
            for kernel in _kernels(work)
            if kernel.n_bytes
            and self.memory_bandwidth is not None
            and self._memory_time(kernel) > self._arithmetic_time(kernel)
        ]
        return int(math.fsum(map(self._kernel_time, bound)) + 0.5)

    def _kernel_time(self, kernel: Kernel) -> float:
        if not (0 <= kernel.flops < math.inf and 0 <= kernel.n_bytes < math.inf):
            problem = (
                f"{kernel.flops:g} FLOP, {kernel.n_bytes:g} bytes; they must be finite and >= 0"
            )
            raise DimsweepError(problem, where=kernel.name, code="out-of-range")
        if not (kernel.flops or kernel.n_bytes):
            return 0.0
        if self.measured is not None and kernel.name:
            return self._measured_time(kernel.name) / self.speed
        launch = min(self.launch, self.graph_launch) if kernel.graphed else self.launch
        launch *= kernel.launched
        return (launch + max(self._arithmetic_time(kernel), self._memory_time(kernel))) / self.speed

    def _arithmetic_time(self, kernel: Kernel) -> float:
        if self.systolic is not None and kernel.matmul is not None:
            return self.systolic.picoseconds(kernel.matmul)
        if self.kernels is not None and kernel.matmul is not None:
            time = self._lookup_table(self.kernels, kernel, kernel.matmul)
            if time is not None:
                return time / self.efficiency
        time = _time(kernel.flops, self._peak(kernel), "flops")
        if kernel.attention is None or self.kernels is not None:
            return time
        again = self.attention_backward / ATTENTION_BACKWARD if kernel.attention.backward else 1.0
        idle = max(1.0, self.matrix_unit / kernel.attention.size)
        return time * self.attention_time * again * idle

    def _lookup_table(self, table: KernelTimes, kernel: Kernel, product: MatMul) -> float | None:
        """Return the time (ps) of a product or attention by ``table``, or None if not measured."""
        if self.precision not in table.products:
            if kernel.attention is not None or self.precision not in self.relative_time:
                return None
            return table.product(product, _MEASURED) * self.relative_time[self.precision]
        if kernel.precision in self.relative_time:
            return table.product(product, self.precision) * self.relative_time[kernel.precision]
        if kernel.attention is not None:
            again = self.attention_backward if kernel.attention.backward else 1.0
            at_peak = kernel.flops / self.flops * PICOSECONDS if self.flops else 0.0
            return max(table.attend(kernel.attention) * self.attention_time * again, at_peak)
        precision = kernel.precision or self.precision
        if precision not in table.products:
            return None
        return max(table.product(product, precision), self._without_tensor_cores(product))

    def _without_tensor_cores(self, product: MatMul) -> float:
        """Return a lower bound (ps) on products that cannot use tensor cores; 0 for others."""
        first = product.m if product.transposed else product.k
        aligned = not (first % _ALIGNED or product.n % _ALIGNED)
        if product.products == 1 or aligned or self.plain_flops is None:
            return 0.0
        return product.flops / self.plain_flops * PICOSECONDS

    def _memory_time(self, kernel: Kernel) -> float:
        rate = self.memory_bandwidth and self.memory_bandwidth * self.memory_efficiency
        return _time(kernel.n_bytes, rate, "memory_bandwidth")

    def _peak(self, kernel: Kernel) -> float | None:
        peak = self.narrow.get(kernel.precision, self.flops)
        if self.flops is not None and kernel.precision in self.relative_time:
            peak = self.flops / self.relative_time[kernel.precision]
        if peak is None:
            return None
        share = self.efficiency
        if self.matmul_efficiency is not None and kernel.matmul is not None:
            share *= self.matmul_efficiency.evaluate(kernel.flops)
        return peak * share

    def _measured_time(self, name: str) -> float:
        assert self.measured is not None
        if name not in self.measured:
            raise DimsweepError(
                f"no duration was measured for kernel {name!r}",
                where="npu.measured",
                hint=f"measured: {', '.join(list(self.measured)[:8]) or 'none'}",
                code="missing",
            )
        return float(self.measured[name])


def _kernels(work: Compute) -> tuple[Kernel, ...]:
    return work.kernels or (Kernel("", work.flops, work.n_bytes),)


def _time(amount: float, rate: float | None, key: str) -> float:
    if not amount:
        return 0.0
    if not rate:
        raise DimsweepError(
            "an operator has work to compute, but this rate of the NPU is not given",
            where=f"npu.{key}",
            code="missing",
            hint="set it, or give the operator a measured duration",
        )
    return amount / rate * PICOSECONDS
