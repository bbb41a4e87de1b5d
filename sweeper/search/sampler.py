"""The interface of samplers, and their input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from dimsweep.engine import DimsweepError, Prices, suggest_names
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.space.space import Space
from dimsweep.sweeper.space.trials import Trial

# A trial's objective values in the study's order, or None if it failed.
Values = Sequence[float] | None

State = Mapping[str, Any]  # of a sampler

# Derivatives of a trial's time by the bandwidth of each dimension, in seconds per byte/s; None if
# they are unknown.
Slopes = Sequence[float] | None


@dataclass(frozen=True)
class Task:
    """The input of a sampler: the space to search, first trials, and settings."""

    name: str  #: name of the sampler
    search: Search  #: seed, and options of the sampler
    space: Space
    objective: tuple[Objective, ...]
    first: list[Trial] = field(default_factory=list)  #: trials to propose first
    prices: Prices | None = None  #: prices of the network, if known
    by_message: bool = False
    start: int = 0  #: number of the first trial


def refuse_options(task: Task, known: Sequence[str] = ()) -> None:
    """Raise :class:`DimsweepError` for an option of the search that is not among ``known``."""
    for name in task.search.options:
        if not known:
            problem, hint = f"{task.name} takes no options", "leave them out"
            raise DimsweepError(problem, where="search.options", hint=hint, code="unknown-key")
        if name not in known:
            problem, where = f"{task.name} has no option {name!r}", f"search.options.{name}"
            hint = suggest_names(name, known)
            raise DimsweepError(problem, where=where, hint=hint, code="unknown-key")


# Increase it when a sampler proposes other trials, or when the form of its state changes.
STATE_VERSION = 2


class Sampler(Protocol):
    """The interface of samplers, which propose trials (ask) and may learn from values (tell).

    The driver asks for up to ``prefetch`` batches while earlier ones are simulated. It passes the
    results of each batch in the order of its trials, so that proposals depend on the seed only.
    """

    learns_from_slopes: bool

    @property
    def prefetch(self) -> int | None:
        """Maximum number of batches in flight.

        None: enough to keep the workers busy; such a sampler does not need results.
        """

    @property
    def batch(self) -> int | None:
        """Number of trials to ask for next; None: ``search.batch``."""

    def __init__(self, task: Task) -> None:
        """Start a search; raises :class:`DimsweepError` if it cannot search the space."""

    def ask(self, n: int) -> Sequence[Trial]:
        """Return the next trials: up to ``n``, and at least one."""

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Learn the values and slopes of trials, which ``ask`` returned earlier."""


@runtime_checkable
class Resumable(Protocol):
    """The interface of samplers whose state can be stored and restored.

    When a study resumes, other samplers start again; the ledger has the results of their trials.
    """

    def state(self, n_known: int) -> State | None:
        """Return plain data for :meth:`restore` after the results of the first ``n_known`` trials.

        Its entry ``asked`` is the number of the next trial. None: no state to resume from yet.
        """

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
