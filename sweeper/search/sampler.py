"""What a sampler is."""

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

# What one more unit of bandwidth in each dimension adds to a trial's time, in seconds per byte/s;
# None where that is not known.
Slopes = Sequence[float] | None


@dataclass(frozen=True)
class Task:
    """The input of a sampler.

    ``first`` are trials to propose first, and ``prices`` the prices of the network, if known.
    ``search`` has the seed, and the options of the sampler ``name``, whose trials are numbered
    from ``start``.
    """

    name: str
    search: Search
    space: Space
    objective: tuple[Objective, ...]
    first: list[Trial] = field(default_factory=list)
    prices: Prices | None = None
    by_message: bool = False
    start: int = 0


def refuse_options(task: Task, known: Sequence[str] = ()) -> None:
    """Raise :class:`DimsweepError` for an option that is not ``known``."""
    for name in task.search.options:
        if not known:
            what, hint = f"{task.name} takes no options", "leave them out"
            raise DimsweepError(what, where="search.options", hint=hint)
        if name not in known:
            what, where = f"{task.name} has no option {name!r}", f"search.options.{name}"
            raise DimsweepError(what, where=where, hint=suggest_names(name, known))


# Raise it when a sampler proposes other trials than before, or its state is another one.
STATE_VERSION = 2


class Sampler(Protocol):
    """Proposes trials, and may learn from their values.

    The driver asks for a batch while earlier ones are simulated, up to ``prefetch`` of them (None:
    enough to keep the workers busy; such a sampler need not be told results). It tells each batch
    in the order of its trials, so that proposals depend on the seed and on nothing else. ``batch``
    is the number of trials to ask for; None leaves it to ``search.batch``.
    """

    learns_from_slopes: bool

    @property
    def prefetch(self) -> int | None:
        """Number of batches that may be asked for before the first of them is told."""

    @property
    def batch(self) -> int | None:
        """Number of trials to ask for next."""

    def __init__(self, task: Task) -> None:
        """Create the sampler at its beginning; raises :class:`DimsweepError` if it cannot search
        the space."""

    def ask(self, n: int) -> Sequence[Trial]:
        """Return the next trials: up to ``n``, and at least one."""

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Learn the values of trials asked for earlier, and their slopes."""


@runtime_checkable
class Resumable(Protocol):
    """A sampler that can resume from a bookmark.

    Any other is asked again from the start when its study resumes, and results in the ledger are
    not simulated again.
    """

    def state(self, told: int) -> State | None:
        """Return plain data for :meth:`restore` after trials up to number ``told``; its ``asked``
        is the number of the next trial. None if there is no state to resume from yet."""

    def restore(self, state: State) -> None:
        """Bring a new sampler to a state."""
