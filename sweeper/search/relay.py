"""Combined samplers: the descent and TPE in turns, and one sampler followed by another."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Protocol

from dimsweep.sweeper.search.blocks import QmcSampler
from dimsweep.sweeper.search.cmaes import CmaEsSampler
from dimsweep.sweeper.search.descent import DescentSampler
from dimsweep.sweeper.search.optuna_sampler import TpeSampler
from dimsweep.sweeper.search.sampler import Resumable, Sampler, Slopes, State, Task, Values
from dimsweep.sweeper.space.space import Space
from dimsweep.sweeper.space.trials import Trial, trial_from_plain, trial_to_plain

_TRIES = 10  # attempts to propose a new design


class CombinedSampler:
    """A sampler that combines the descent in the splits with TPE in all keys.

    Each learns from all results. After a new best trial only the descent continues from there,
    since slopes show the direction. When it gains nothing, the two take turns. If the time is
    smooth, the descent has converged by then, and TPE explores other regions. If the order of
    events changes with each split, TPE learns from times alone. The descent keeps the other keys of
    the best trial.
    """

    learns_from_slopes = True
    prefetch = 1
    batch = None

    def __init__(self, task: Task) -> None:
        self._objective = task.objective[0]
        self._sampler = TpeSampler(replace(task, name="tpe", first=[]))
        plain = task.search.model_copy(update={"options": {}})
        splits = Space(task.space.split, {})
        self._new_descent = partial(
            DescentSampler, replace(task, search=plain, space=splits, first=[])
        )
        self._descent = self._new_descent()
        self._waiting, self._asked = list(task.first), 0
        self._results: list[tuple[Trial, Values, Slopes]] = []
        self._designs: set[object] = set()
        self._best: tuple[float, Trial] | None = None
        self._gains = self._descends = True

    def ask(self, n: int) -> list[Trial]:
        """Return up to ``n`` trials, or a single one while the descent gains."""
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        if not trials:
            trials = [self._propose(self._asked + i) for i in range(1 if self._gains else n)]
        self._designs.update(trial.design for trial in trials)
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Learn from trials, which this search or any other proposed."""
        results = list(zip(trials, values, slopes, strict=True))
        before = self._best
        for trial, value, _ in results:
            if value is not None and self._beats(value[0]):
                self._best = value[0], trial
        self._results += results
        self._sampler.tell(trials, values, slopes)
        self._gains = self._best is not before
        if self._best is None:
            return
        keys = self._best[1].parameters
        if before is not None and before[1].parameters != keys:
            self._descent, results = self._new_descent(), self._results
        self._descends = self._descends or self._gains
        for trial, value, slope in results:
            if trial.parameters == keys:
                self._descent.tell([trial], [value], [slope])

    def state(self, n_known: int) -> State:
        """Return plain data for :meth:`restore`."""
        results = [[trial_to_plain(trial), value, slope] for trial, value, slope in self._results]
        return {
            "asked": n_known,
            "sampler": self._sampler.state(n_known),
            "descent": self._descent.state(n_known),
            "told": results,
            "best": None if self._best is None else [self._best[0], trial_to_plain(self._best[1])],
            "turn": [self._gains, self._descends],
        }

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        self._asked, self._waiting = state["asked"], self._waiting[state["asked"] :]
        self._sampler.restore(state["sampler"])
        self._descent.restore(state["descent"])
        self._results = [
            (trial_from_plain(trial), value, slope) for trial, value, slope in state["told"]
        ]
        self._designs = {trial.design for trial, _, _ in self._results}
        best = state["best"]
        self._best = None if best is None else (best[0], trial_from_plain(best[1]))
        self._gains, self._descends = state["turn"]

    def _beats(self, value: float) -> bool:
        return self._best is None or self._objective.is_better(value, self._best[0])

    def _propose(self, number: int) -> Trial:
        for _ in range(_TRIES):
            trial = self._draw(number)
            if trial.design not in self._designs:
                break
        self._designs.add(trial.design)
        self._descends = not self._descends
        return trial

    def _draw(self, number: int) -> Trial:
        if self._best is None or not self._descends:
            return self._sampler.propose(number)
        return replace(self._descent.propose(number), parameters=self._best[1].parameters)


# Trials after which a relay changes its sampler: TPE then takes about 10 ms for each further trial,
# many times longer than its simulation.
HANDOVER = 1000


class _Part(Sampler, Resumable, Protocol):
    """The interface of samplers that a :class:`RelaySampler` can use."""


class RelaySampler:
    """A sampler for the first :data:`HANDOVER` trials, followed by another with their results."""

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
        """Number of batches in flight that the current sampler allows."""
        return self._turn.prefetch

    @property
    def batch(self) -> int | None:
        """Number of trials to ask the current sampler for at once."""
        return self._turn.batch

    def ask(self, n: int) -> Sequence[Trial]:
        """Return up to ``n`` trials from the current sampler."""
        left = HANDOVER - self._asked
        trials = self._turn.ask(min(n, left) if left > 0 else n)
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Pass results to the second sampler, and until the handover also to the first one."""
        if trials[0].number < HANDOVER:
            self._first.tell(trials, values, slopes)
        self._then.tell(trials, values, slopes)

    def state(self, n_known: int) -> State | None:
        """Return plain data for :meth:`restore`, or None if the current sampler has none yet."""
        first = self._first.state(n_known) if n_known < HANDOVER else None
        then = self._then.state(max(n_known, HANDOVER))
        now = first or then
        return now and {"asked": now["asked"], "first": first, "then": then}

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        self._asked = state["asked"]
        if state["first"] is not None:
            self._first.restore(state["first"])
        if state["then"] is not None:
            self._then.restore(state["then"])


class DescentThenCmaEs(RelaySampler):
    """The descent with TPE, followed by CMA-ES."""

    learns_from_slopes = True
    first, then = CombinedSampler, CmaEsSampler


class TpeThenCmaEs(RelaySampler):
    """TPE, followed by CMA-ES."""

    first, then = TpeSampler, CmaEsSampler


class TpeThenQmc(RelaySampler):
    """TPE, followed by a Sobol sequence: for two objectives, which CMA-ES does not search."""

    first, then = TpeSampler, QmcSampler
