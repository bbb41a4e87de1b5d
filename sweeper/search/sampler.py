"""What a sampler is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from dimsweep.engine import DimsweepError, Prices, suggestion
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
    """What a sampler is made for.

    ``first`` are trials to propose first, and ``prices`` what the network costs, where that is
    known.  ``search`` has the seed, and the options of the sampler that is called ``name``, whose
    trials are numbered from ``start``.
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
    """Raise :class:`DimsweepError` for an option that is none of those ``known``."""
    for name in task.search.options:
        if not known:
            what, hint = f"{task.name} takes no options", "leave them out"
            raise DimsweepError(what, where="search.options", hint=hint)
        if name not in known:
            what, where = f"{task.name} has no option {name!r}", f"search.options.{name}"
            raise DimsweepError(what, where=where, hint=suggestion(name, known))


# Raise it when a sampler proposes other trials than before, or its state is another one.
STATE_VERSION = 2


class Sampler(Protocol):
    """Proposes trials, and perhaps learns from their values.

    The driver asks for a batch while those before it, up to ``prefetch`` with it (``None``: as many
    as keep the workers busy; such a sampler need not be told anything), are being simulated, and
    tells each batch in the order of its trials, so what is proposed depends on the seed and on
    nothing else.  ``batch`` is how many it wants to
    be asked for; ``None`` leaves it to ``search.batch``.
    """

    learns_from_slopes: bool

    @property
    def prefetch(self) -> int | None:
        """How many batches may be asked for before the first of them is told."""

    @property
    def batch(self) -> int | None:
        """How many trials to ask for next."""

    def __init__(self, task: Task) -> None:
        """A sampler at its beginning; raises :class:`DimsweepError` for what it cannot search."""

    def ask(self, n: int) -> Sequence[Trial]:
        """The next trials: up to ``n``, and at least one."""

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """The values of trials asked for earlier, and slopes if the sampler learns from them."""


@runtime_checkable
class Resumable(Protocol):
    """A sampler whose search can go on from a bookmark.  Any other is asked again from the start
    when its study is resumed, and what the ledger knows is not simulated again."""

    def state(self, told: int) -> State | None:
        """What :meth:`restore` needs after trials up to number ``told``, as plain data;
        ``asked`` in it is the number of the trial that is then asked for next.  ``None`` if there
        is no state to go on from yet."""

    def restore(self, state: State) -> None:
        """Bring a new sampler to where another one was."""
