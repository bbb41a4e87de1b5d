"""Rows beside their predictions, and what their errors add up to."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from scipy.stats import spearmanr

from dimsweep.sweeper.extensions.verify.clusters.measurements import Measurement
from dimsweep.sweeper.extensions.verify.clusters.models import model_keys
from dimsweep.sweeper.extensions.verify.clusters.predict import Prediction


@dataclass(frozen=True)
class Compared:
    """A row, what we say of it, and what it belongs to."""

    line: int
    measured: Measurement
    ours: Prediction
    gpu: str
    family: str
    fitted: bool
    of_peaks: bool = False  # of a chip that has its data sheet's peak alone

    @property
    def is_time(self) -> bool:
        """Whether the row has seconds; else it has bytes of memory."""
        return self.measured.seconds is not None

    @property
    def values(self) -> tuple[float, float]:
        """Theirs and ours, both in seconds or in bytes."""
        if self.measured.seconds is not None:
            return self.measured.seconds, self.ours.seconds
        assert self.measured.memory is not None
        return self.measured.memory, self.ours.memory

    @property
    def error(self) -> float:
        """Ours over theirs, less 1."""
        theirs, ours = self.values
        return ours / theirs - 1

    @property
    def kind(self) -> str:
        """Dense, or with experts: two kinds of evidence."""
        return "experts" if "experts" in model_keys(self.measured) else "dense"

    @property
    def scale(self) -> str:
        """How many GPUs, in words."""
        for limit in (8, 64, 512):
            if self.measured.gpus <= limit:
                return f"up to {limit} GPUs"
        return "more GPUs"


@dataclass(frozen=True)
class Errors:
    """Errors of some rows; ``rank`` is Spearman's coefficient of their values, NaN below 3 rows."""

    rows: int
    mean: float
    median: float
    worst: float
    bias: float
    rank: float

    @classmethod
    def of(cls, rows: Sequence[Compared]) -> "Errors":
        sizes = [abs(row.error) for row in rows]
        return cls(
            len(rows),
            fmean(sizes),
            median(sizes),
            max(sizes),
            math.exp(fmean(math.log1p(row.error) for row in rows)) - 1,
            _rank(rows),
        )


def _rank(rows: Sequence[Compared]) -> float:
    """Spearman's coefficient of measured and predicted; repeated rows would count twice."""
    distinct = sorted({row.values for row in rows})
    theirs, ours = [a for a, _ in distinct], [b for _, b in distinct]
    if len(set(theirs)) < 3 or len(set(ours)) < 2:
        return math.nan
    return float(spearmanr(theirs, ours).statistic)


def by(key: Callable[[Compared], str], rows: Iterable[Compared]) -> dict[str, list[Compared]]:
    """The rows in groups, in the order of the keys."""
    groups: dict[str, list[Compared]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def origin(row: Compared) -> str:
    """The document that a row comes from."""
    return row.measured.origin


def without_own_source(rows: Sequence[Compared]) -> list[Compared]:
    """Leave one source out: about what we would say of each row had its own source not been fitted.

    Rows of unfitted sources are as they are.  Those of a fitted source are corrected by the factor
    for their GPU and kind that makes the other fitted sources right in the mean; the constants are
    not fitted again.  Where there is no other one, nobody judges: those rows are not among these.
    """
    found = []
    for row in rows:
        alike = [o for o in rows if o.fitted and (o.gpu, o.kind) == (row.gpu, row.kind)]
        others = [o for o in alike if origin(o) != origin(row)]
        if row.fitted:
            if not others:
                continue
            seconds = row.ours.seconds / (1 + Errors.of(others).bias)
            row = replace(row, ours=replace(row.ours, seconds=seconds))
        found.append(row)
    return found
