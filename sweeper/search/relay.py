"""Two samplers, one after the other: one that learns much from each trial, and one for many."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sweeper.search.blocks import QmcSampler
from sweeper.search.cmaes import CmaEsSampler
from sweeper.search.combined import CombinedSampler
from sweeper.search.optuna_sampler import TpeSampler
from sweeper.search.sampler import Sampler, Slopes, State, Task, Values
from sweeper.space.trials import Trial

# The time that TPE takes for a trial grows with the trials before it; it has about ten milliseconds
# by then, and the simulation of a trial takes a fraction of one.
HANDOVER = 1000


class RelaySampler:
    """The first :data:`HANDOVER` trials are of the one sampler, those after them of the other,
    which begins with all that was found by then."""

    learns_from_slopes = False
    first: ClassVar[type[Sampler]]
    then: ClassVar[type[Sampler]]

    def __init__(self, task: Task) -> None:
        name, _, last = task.name.rpartition("+")
        self._sampler, self._asked = self.first(replace(task, name=name)), 0
        self._task: Task | None = replace(task, name=last, first=[], start=HANDOVER)
        self._told: list[tuple[Trial, Values, Slopes]] = []

    @property
    def prefetch(self) -> int | None:
        return self._sampler.prefetch

    @property
    def batch(self) -> int | None:
        if self._asked == HANDOVER and self._task is not None:
            self._hand_over(self._task)
        return self._sampler.batch

    def ask(self, n: int) -> Sequence[Trial]:
        left = HANDOVER - self._asked
        trials = self._sampler.ask(min(n, left) if left > 0 else n)
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        self._sampler.tell(trials, values, slopes)
        if self._task is not None:
            self._told += zip(trials, values, slopes, strict=True)

    def state(self, told: int) -> State | None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        return self._sampler.state(told) if self._task is None else None

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        assert self._task is not None
        self._sampler, self._task = self.then(self._task), None
        self._sampler.restore(state)
        self._asked = state["asked"]

    def _hand_over(self, task: Task) -> None:
        self._sampler, self._task = self.then(task), None
        self._sampler.tell(*zip(*self._told, strict=True))
        self._told = []


class DescentThenCmaEs(RelaySampler):
    """The descent with TPE, and then CMA-ES."""

    learns_from_slopes = True
    first, then = CombinedSampler, CmaEsSampler


class TpeThenCmaEs(RelaySampler):
    """TPE, and then CMA-ES."""

    first, then = TpeSampler, CmaEsSampler


class TpeThenQmc(RelaySampler):
    """TPE, and then a Sobol sequence: for two objectives, which CMA-ES does not search."""

    first, then = TpeSampler, QmcSampler
