"""Two samplers, one after the other: one that learns much from each trial, and one for many."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from dimsweep.sweeper.search.blocks import QmcSampler
from dimsweep.sweeper.search.cmaes import CmaEsSampler
from dimsweep.sweeper.search.combined import CombinedSampler
from dimsweep.sweeper.search.optuna_sampler import TpeSampler
from dimsweep.sweeper.search.sampler import Resumable, Sampler, Slopes, State, Task, Values
from dimsweep.sweeper.space.trials import Trial

# The time that TPE takes for a trial grows with the trials before it; it has about ten milliseconds
# by then, and the simulation of a trial takes a fraction of one.
HANDOVER = 1000


class _Part(Sampler, Resumable, Protocol):
    """A sampler that a relay can be made of."""


class RelaySampler:
    """The first :data:`HANDOVER` trials are of the one sampler, those after them of the other,
    which begins with all that was found by then."""

    learns_from_slopes = False
    first: ClassVar[type[_Part]]
    then: ClassVar[type[_Part]]

    def __init__(self, task: Task) -> None:
        name, _, last = task.name.rpartition("+")
        self._first = self.first(replace(task, name=name))
        self._then = self.then(replace(task, name=last, first=[], start=HANDOVER))
        self._asked = 0

    @property
    def _turn(self) -> _Part:
        return self._first if self._asked < HANDOVER else self._then

    @property
    def prefetch(self) -> int | None:
        return self._turn.prefetch

    @property
    def batch(self) -> int | None:
        return self._turn.batch

    def ask(self, n: int) -> Sequence[Trial]:
        left = HANDOVER - self._asked
        trials = self._turn.ask(min(n, left) if left > 0 else n)
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        if trials[0].number < HANDOVER:
            self._first.tell(trials, values, slopes)
        self._then.tell(trials, values, slopes)

    def state(self, told: int) -> State | None:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        first = self._first.state(told) if told < HANDOVER else None
        then = self._then.state(max(told, HANDOVER))
        now = first or then
        return now and {"asked": now["asked"], "first": first, "then": then}

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        self._asked = state["asked"]
        if state["first"] is not None:
            self._first.restore(state["first"])
        if state["then"] is not None:
            self._then.restore(state["then"])


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
