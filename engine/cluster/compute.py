"""How long a matrix product takes, beyond the roofline: efficiency by size, or a systolic array."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.settings import Bounds, Count, check_settings
from dimsweep.engine.units import FREQUENCY, PICOSECONDS
from dimsweep.engine.workload.graph import MatMul

_DIGITS = 6  # of a mean number of rows that is rounded up, whatever its last bits are


@dataclass(frozen=True)
class EfficiencyCurve:
    """The share of the peak that a matrix product of so many FLOPs reaches.

    ``knots`` are pairs of FLOPs and share, by rising FLOPs; between them the share is linear in the
    logarithm of the FLOPs, outside them it is that of the nearest one.
    """

    knots: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        sizes = [flops for flops, _ in self.knots]
        if not self.knots or sizes != sorted(set(sizes)) or sizes[0] <= 0:
            raise DimsweepError(
                "the curve needs FLOPs that rise from knot to knot", where="matmul_efficiency"
            )
        for flops, share in self.knots:
            if not 0 < share <= 1:
                raise DimsweepError(
                    f"{share} at {flops:g} FLOP is not in (0, 1]", where="matmul_efficiency"
                )

    def at(self, flops: float) -> float:
        right = bisect_right(self.knots, (flops, math.inf))
        if right == 0:
            return self.knots[0][1]
        if right == len(self.knots):
            return self.knots[-1][1]
        (low, a), (high, b) = self.knots[right - 1 : right + 1]
        return a + (b - a) * math.log(flops / low) / math.log(high / low)


class Dataflow(StrEnum):
    """Which operand of a product stays in the array."""

    OUTPUT_STATIONARY = "output_stationary"
    WEIGHT_STATIONARY = "weight_stationary"
    INPUT_STATIONARY = "input_stationary"


@dataclass(frozen=True)
class SystolicArray:
    """``arrays`` arrays of ``rows`` x ``columns`` multipliers at ``clock`` Hz.

    Samajdar et al., "A systematic methodology for characterizing scalability of DNN accelerators
    using SCALE-Sim" (ISPASS 2020): a product is cut into folds, and each of them occupies the whole
    array, however much of it is idle.  With R rows, C columns and T steps in time a fold takes
    2 R + C + T - 2 cycles where weights or inputs stay (R cycles load them); where outputs stay,
    nothing is loaded and a fold takes R + C + T - 2.
    """

    rows: Count
    columns: Count
    clock: Annotated[float, FREQUENCY, Bounds(above=0)]
    dataflow: Dataflow = Dataflow.WEIGHT_STATIONARY
    arrays: Count = 1

    def __post_init__(self) -> None:
        check_settings(self)

    def cycles(self, product: MatMul) -> int:
        """Cycles until all of ``product`` is done; rows of which there is a part in the mean take
        a row's time."""
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
        return self.cycles(product) / self.clock * PICOSECONDS
