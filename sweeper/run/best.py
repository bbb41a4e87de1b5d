"""The best designs of a search."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dimsweep.sweeper.space.trials import Floats, Trial, Trials, plain, trial_of
from dimsweep.sweeper.study.cell import CellPlan


class Best:
    """The best designs of a cell so far, one or as many as are to be looked at again, each once."""

    def __init__(self, cell: CellPlan) -> None:
        self._again = cell.recheck
        self._sign = cell.objective[0].sign
        self._kept: list[tuple[float, int, Trial]] = []

    @property
    def value(self) -> float | None:
        """The best value of the first objective; ``None`` if no trial is complete."""
        return self._sign * self._kept[0][0] if self._kept else None

    @property
    def trial(self) -> Trial:
        """The best trial; there must be one."""
        return self._kept[0][2]

    def add(self, trials: Trials, values: Floats) -> None:
        """Look at trials with higher numbers than those before, and their values (N, K)."""
        losses = self._sign * values[:, 0]
        full = len(self._kept) == max(self._again, 1)
        found = [
            (float(losses[i]), trials[i].number, trials[i])
            for i in np.flatnonzero(losses < (self._kept[-1][0] if full else np.inf)).tolist()
        ]
        designs: dict[object, tuple[float, int, Trial]] = {}
        for entry in sorted([*self._kept, *found], key=lambda entry: entry[:2]):
            if len(designs) == max(self._again, 1):
                break
            designs.setdefault(entry[2].design, entry)
        self._kept = list(designs.values())

    def designs(self) -> list[Trial]:
        """The designs to look at again, the best first."""
        return [trial for _, _, trial in self._kept[: self._again]]

    def state(self) -> list[Any]:
        """What :meth:`restore` needs, as plain data."""
        return [[loss, int(number), plain(trial)] for loss, number, trial in self._kept]

    def restore(self, state: Sequence[Any]) -> None:
        """Have the best that another one had."""
        self._kept = [(loss, number, trial_of(own)) for loss, number, own in state]
