"""What the duration of a phase among alike members is made of, whatever the network's speed.

In most phases all that an NPU waits for at a time ends at the same time: first the endpoint delays
of all packets in flight, then perhaps their reductions, then their messages.  Such a phase takes
the sum of these, and which they are does not depend on how long a message takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.replicas.astra_sim.algorithms import Costs, Exchange
from engine.replicas.astra_sim.chunks import Phase

Call = Callable[[], None]
Message = tuple[int, int, int]  # dimension, hops, bytes


@dataclass(frozen=True)
class Recipe:
    """``fixed`` ns, and messages one after the other: how many of each."""

    fixed: int
    messages: tuple[tuple[Message, int], ...]


def recipe(
    phase: Phase,
    ranks: Sequence[int],
    me: int,
    costs: Costs,
    route: Callable[[int, int], tuple[int, int]],
) -> Recipe | None:
    """Of ``phase`` among ``ranks``, as ``me`` sees it; nothing if some packets go ahead of others.

    Raises :class:`DimsweepError` for an algorithm that so many ranks cannot run.
    """
    port = _Steps(me, route)
    Exchange(port, costs, phase, ranks, done=port.end).start()
    return port.follow()


@dataclass
class _Steps:
    """A port that gets what it sends, and lets everything that is under way end together."""

    rank: int
    route: Callable[[int, int], tuple[int, int]]
    ended: bool = False
    under_way: list[tuple[int | Message, Call]] = field(default_factory=list)

    def end(self) -> None:
        self.ended = True

    def wait(self, delay: int, call: Call) -> None:
        self.under_way.append((delay, call))

    def exchange(self, target: int, source: int, n_bytes: int, received: Call) -> None:
        self.under_way.append(((*self.route(self.rank, target), n_bytes), received))

    def follow(self) -> Recipe | None:
        fixed, messages = 0, Counter[Message]()
        while not self.ended:
            step, self.under_way = self.under_way, []
            if len({what for what, _ in step}) != 1:
                return None
            what = step[0][0]
            if isinstance(what, int):
                fixed += what
            else:
                messages[what] += 1
            for _, call in step:
                call()
        return Recipe(fixed, tuple(messages.items()))
