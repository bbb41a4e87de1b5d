"""Samplers that wrap Optuna's, with an in-memory Optuna study."""

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from dimsweep.engine import DimsweepError, format_yaml, needing
from dimsweep.sweeper.search.sampler import State, Task, Values, refuse_options
from dimsweep.sweeper.space.design import coordinate_names, encode_split
from dimsweep.sweeper.space.space import Choice, Parameter
from dimsweep.sweeper.space.trials import Setting, Trial


class OptunaSampler:
    """A sampler that wraps Optuna's sampler class ``kind``."""

    learns_from_slopes = False
    prefetch = 2
    batch = None
    kind: ClassVar[str]

    def __init__(self, task: Task) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")  # many warn of experimental features
        space, first = task.space, task.first
        self._space, self._first, self._asked = space, first, 0
        self._origin = task.name
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(
            storage=self._storage,
            sampler=_build_sampler(getattr(optuna.samplers, self.kind), task),
            directions=[objective.direction for objective in task.objective],
        )
        self._id = self._storage.get_study_id_from_name(self._study.study_name)
        self._numbers: dict[int, int] = {}  # Optuna's numbers of trials
        self._distributions = {name: unit_distribution() for name in coordinate_names(space)}
        for key, parameter in space.parameters.items():
            self._distributions[key] = build_distribution(parameter)

    def ask(self, n: int) -> list[Trial]:
        """Return the next ``n`` trials."""
        self._asked += n
        return [self.propose(number) for number in range(self._asked - n, self._asked)]

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[object]
    ) -> None:
        """Learn from trials, which this search or any other proposed."""
        from optuna.trial import TrialState

        for trial, value in zip(trials, values, strict=True):
            asked = self._numbers.pop(trial.number, None)
            if asked is not None:
                if value is None:
                    self._study.tell(asked, state=TrialState.FAIL)
                else:
                    self._study.tell(asked, list(value))
            elif value is not None:
                self._add(trial, value)

    def propose(self, number: int) -> Trial:
        """Return the next trial, under ``number``."""
        known = self._first[number] if number < len(self._first) else None
        if known is not None:
            self._study.enqueue_trial(self._encode(known))
        asked = self._study.ask(self._distributions)
        self._numbers[number] = asked.number
        return self._decode(number, asked.params)

    def _decode(self, number: int, params: Mapping[str, Any]) -> Trial:
        """Return the trial ``number`` from Optuna's parameters."""
        if number < len(self._first):
            return self._first[number]
        unit = np.array([[params[name] for name in coordinate_names(self._space)]])
        parameters = {
            key: json.loads(params[key])
            if isinstance(parameter, Choice)
            else parameter.value(params[key])
            for key, parameter in self._space.parameters.items()
        }
        return self._space.trials(unit, [Setting(parameters)], number, self._origin)[0]

    def _add(self, trial: Trial, value: Sequence[float]) -> None:
        """Learn from a trial that this search did not propose."""
        from optuna.trial import create_trial

        params, distributions = self._encode(trial), self._distributions
        # The upper end of a range may be off its grid, where Optuna refuses it.
        with suppress(ValueError):
            self._study.add_trial(
                create_trial(params=params, distributions=distributions, values=list(value))
            )

    def _encode(self, trial: Trial) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if self._space.split is not None:
            params |= encode_split(self._space, trial)
        for key, parameter in self._space.parameters.items():
            value = trial.parameters[key]
            if isinstance(parameter, Choice):
                params[key] = json.dumps(value)
            else:
                params[key] = float(str(value).split()[0])
        return params


def unit_distribution() -> Any:
    """Return Optuna's distribution of a coordinate of the split: uniform in [0, 1]."""
    from optuna.distributions import FloatDistribution

    return FloatDistribution(0.0, 1.0)


def build_distribution(parameter: Parameter, code: Callable[[Any], Any] = json.dumps) -> Any:
    """Return Optuna's distribution of a searched key.

    Optuna accepts None, truth values, numbers and texts; ``code`` encodes the values of a list.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Choice):
        return CategoricalDistribution([code(value) for value in parameter.values])
    if parameter.integer and parameter.step in (None, round(parameter.step or 1)):
        step = 1 if parameter.log else round(parameter.step or 1)
        return IntDistribution(int(parameter.low), int(parameter.high), parameter.log, step)
    step_or_none = None if parameter.log else parameter.step
    return FloatDistribution(parameter.low, parameter.high, parameter.log, step_or_none)


def _build_sampler(kind: type[Any], task: Task) -> Any:
    """Return Optuna's sampler with the study's seed and options."""
    accepted = inspect.signature(kind).parameters
    refuse_options(task, [name for name in accepted if name != "seed"])
    for name, value in task.search.options.items():
        _check_option(name, value, accepted[name])
    plain = kind(seed=task.search.seed)  # options are not to blame for an error here
    if not task.search.options:
        return plain
    try:
        return kind(seed=task.search.seed, **task.search.options)
    except (TypeError, ValueError) as error:
        problem = f"{task.name}: {error}"
        raise DimsweepError(problem, where="search.options", code="wrong-type") from error


def _check_option(name: str, value: Any, accepted: inspect.Parameter) -> None:
    """Raise :class:`DimsweepError` for a value of another type than Optuna's, or below zero.

    Optuna checks some options only when it uses them.
    """
    where, kind = f"search.options.{name}", str(accepted.annotation).partition(" ")[0]
    if value is None or kind not in _KINDS:
        return
    types, noun, hint = _KINDS[kind]
    if not isinstance(value, types) or (kind != "bool" and isinstance(value, bool)):
        problem = f"{format_yaml(value)} is not a {noun}"
        raise DimsweepError(problem, where=where, hint=hint, code="wrong-type")
    if kind != "bool" and not value >= 0:
        problem = f"{value}; it must be 0 or more"
        raise DimsweepError(problem, where=where, code="out-of-range")


_KINDS: dict[str, tuple[Any, str, str]] = {
    "bool": (bool, "truth value", "true or false"),
    "int": (int, "whole number", "such as 10"),
    "float": ((int, float), "number", "such as 0.5"),
}


class ResumableOptunaSampler(OptunaSampler):
    """A wrapped sampler whose state (its trials and random generators) can be stored.

    Trials in flight are part of the state: a resumed search proposes them first.
    """

    def ask(self, n: int) -> list[Trial]:
        """Return the next ``n`` trials; a resumed search begins with trials that were in flight."""
        self._asked += n
        return [
            self._repeat(number) if number in self._numbers else self.propose(number)
            for number in range(self._asked - n, self._asked)
        ]

    def _repeat(self, number: int) -> Trial:
        asked = self._study.get_trials(deepcopy=False)[self._numbers[number]]
        return self._decode(number, asked.params)

    def state(self, n_known: int) -> State:
        """Return plain data for :meth:`restore`."""
        return {
            "asked": n_known,
            "numbers": list(self._numbers.items()),
            "attributes": self._storage.get_study_system_attrs(self._id),
            "random": [_random_state(each) for each in random_states(self._study.sampler)],
            "trials": [
                [
                    trial.state.name,
                    trial.values,
                    [trial.params[name] for name in self._distributions],
                    trial.system_attrs,
                ]
                for trial in self._study.get_trials(deepcopy=False)
            ],
        }

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        from optuna.trial import TrialState, create_trial

        self._asked, self._numbers = state["asked"], dict(state["numbers"])
        for key, value in state["attributes"].items():
            self._storage.set_study_system_attr(self._id, key, value)
        for own, kept in zip(random_states(self._study.sampler), state["random"], strict=True):
            own.set_state((kept[0], np.array(kept[1], dtype=np.uint32), *kept[2:]))
        self._study.add_trials(
            create_trial(
                state=TrialState[name],
                values=values,
                params=dict(zip(self._distributions, params, strict=True)),
                distributions=self._distributions,
                system_attrs=attributes,
            )
            for name, values, params, attributes in state["trials"]
        )


def _random_state(random: np.random.RandomState) -> list[Any]:
    name, numbers, *rest = random.get_state(legacy=True)
    return [name, np.asarray(numbers).tolist(), *rest]


class TpeSampler(ResumableOptunaSampler):
    """Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)."""

    kind = "TPESampler"


class Nsga2Sampler(ResumableOptunaSampler):
    """Optuna's NSGA-II (Deb et al., IEEE TEVC 2002)."""

    kind = "NSGAIISampler"


class GpSampler(OptunaSampler):
    """Optuna's Bayesian optimisation with a Gaussian process."""

    kind = "GPSampler"

    def __init__(self, task: Task) -> None:
        missing = DimsweepError(
            "Optuna's GP sampler needs PyTorch",
            where="search.sampler",
            hint="pip install 'dimsweep[gp]'",
            code="inaccessible",
        )
        with needing("torch", missing):
            import torch  # noqa: F401
        super().__init__(task)


def random_states(sampler: object) -> Iterator[np.random.RandomState]:
    """Yield all random generators inside Optuna's sampler, in a fixed order.

    Optuna offers no access to them, so its attributes are inspected.
    """
    for part in vars(sampler).values():
        state = getattr(part, "rng", None)
        if isinstance(state, np.random.RandomState):
            yield state
        elif type(part).__module__.startswith("optuna.samplers") and hasattr(part, "__dict__"):
            yield from random_states(part)
