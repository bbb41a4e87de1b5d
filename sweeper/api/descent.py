"""The descent sampler as a sampler for Optuna."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.api.session import only_cell
from dimsweep.sweeper.search.descent import DescentSampler as Descent
from dimsweep.sweeper.search.optuna_sampler import unit_distribution
from dimsweep.sweeper.search.sampler import Task
from dimsweep.sweeper.space.design import coordinate_names, encode_split, read_design
from dimsweep.sweeper.space.trials import Trial

if TYPE_CHECKING:
    import optuna

    from dimsweep.sweeper.api.study import Study

SLOPES = "slopes"  # the attribute of a trial
_STRANGE = -1  # the number of a trial that the descent did not propose


class DescentSampler(BaseSampler):
    """A sampler for Optuna that proposes the same as ``search.sampler=descent`` does in a study.

        search = optuna.create_study(sampler=dimsweep.DescentSampler(study))

    Its random seed is the study's. A trial's parameters are the coordinates of a split
    (:meth:`Study.space`). Its value is that of the first objective, and its user attribute
    ``slopes`` that of :class:`Simulated`.  The sampler learns from all trials of Optuna's study,
    also from those of an earlier process.
    """

    def __init__(self, study: "Study") -> None:
        """Create a sampler for the search space of ``study``.

        Raises :class:`DimsweepError` for a study that the descent cannot search.
        """
        cell = only_cell(study.plan)
        search = cell.config.search.model_copy(update={"options": {}})
        self._space, self._objective = cell.space, cell.objective[0]
        self._task = Task(
            *("descent", search, cell.space, cell.objective, cell.first, cell.prices),
            by_message=cell.config.by_message,
        )
        self._descent = Descent(self._task)
        self._proposed = dict[int, Trial]()  # by the number of Optuna's trial
        self._learnt = set[int]()

    def infer_relative_search_space(
        self, study: "optuna.Study", trial: FrozenTrial
    ) -> dict[str, Any]:
        """Return Optuna's distributions of the coordinates of a split."""
        return {name: unit_distribution() for name in coordinate_names(self._space)}

    def sample_relative(
        self, study: "optuna.Study", trial: FrozenTrial, search_space: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the descent's next split, after it has learnt from all complete trials.

        Raises :class:`DimsweepError` for an Optuna study with the opposite direction, or whose
        trials have no slopes.
        """
        if study.directions[0].name.lower() != self._objective.direction:
            hint = f"create_study(direction={self._objective.direction!r})"
            what = f"{self._objective.name} must be searched to {self._objective.direction}"
            raise DimsweepError(what, where="direction", hint=hint, code="mismatch")
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if complete and not self._proposed:
            self._descent = Descent(self._going_on(complete))
        self._learn(complete)
        (proposed,) = self._descent.ask(1)
        self._proposed[trial.number] = proposed
        return encode_split(self._space, proposed)

    def sample_independent(
        self, study: "optuna.Study", trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """Raise :class:`DimsweepError`: the descent searches splits only."""
        names = coordinate_names(self._space)
        hint = f"{', '.join(names)}, each from 0 to 1"
        raise DimsweepError(
            "the descent searches splits only", where=param_name, hint=hint, code="unsupported"
        )

    def _going_on(self, trials: Sequence[FrozenTrial]) -> Task:
        """Return the input of a descent that continues after ``trials``.

        It has another seed for random splits.
        """
        known, search = {self._split(each) for each in trials}, self._task.search
        seed = (search.seed + len(trials)) % 2**32
        first = [each for each in self._task.first if each.bandwidth not in known]
        return replace(self._task, first=first, search=search.model_copy(update={"seed": seed}))

    def _learn(self, trials: Sequence[FrozenTrial]) -> None:
        """Pass new trials to the descent, with the proposals from which they were made."""
        new = [trial for trial in trials if trial.number not in self._learnt]
        if new and not any(SLOPES in trial.user_attrs for trial in trials):
            raise DimsweepError(
                "no trial has slopes, from which the descent learns",
                code="missing",
                where=f"trial {new[0].number}",
                hint=f"call trial.set_user_attr({SLOPES!r}, simulated.slopes) before Optuna's tell",
            )
        for trial in new:
            self._learnt.add(trial.number)
            split, own = self._split(trial), self._proposed.get(trial.number)
            if own is None or own.bandwidth != split:
                own = Trial(_STRANGE, "", split)
            self._descent.tell([own], [trial.values], [trial.user_attrs.get(SLOPES)])

    def _split(self, trial: FrozenTrial) -> tuple[float, ...] | None:
        return read_design(self._space, trial.params).bandwidth
