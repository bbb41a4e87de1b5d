"""What the duration of a phase among alike members is made of, whatever the network's speed.

In most phases all that an NPU waits for at a time ends at the same time: first the endpoint delays
of all packets in flight, then perhaps their reductions, then their messages.  Such a phase takes
the sum of these, and which they are does not depend on how long a message takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dimsweep.engine.extensions.astra_sim.algorithms import Costs, Exchange
from dimsweep.engine.extensions.astra_sim.chunks import Phase

Call = Callable[[], None]


class Message(NamedTuple):
    """A message, or several side by side, to peers as far away."""

    dim: int
    hops: int
    n_bytes: int
    peers: int = 1


class Round(NamedTuple):
    """A message (None: none), then the endpoint delay and the reduction before the next one, ns."""

    message: Message | None
    delay: int
    reduction: int


def recipe(
    phase: Phase,
    ranks: Sequence[int],
    me: int,
    costs: Costs,
    route: Callable[[int, int], tuple[int, int]],
) -> list[Round] | None:
    """The rounds of ``phase`` among ``ranks``, as ``me`` sees it, one after another.

    None if some packets go ahead of others.  Raises :class:`DimsweepError` for an algorithm that so
    many ranks cannot run.
    """
    port = _Steps(me, route)
    Exchange(port, costs, phase, ranks, done=port.end).start()
    waits = port.follow()
    if waits is None:
        return None
    rounds: list[Round] = []
    for wait in waits:
        if isinstance(wait, Message):
            rounds.append(Round(wait, 0, 0))
        elif not rounds or rounds[-1].delay:
            if not rounds:
                rounds.append(Round(None, wait, 0))
            else:
                rounds[-1] = rounds[-1]._replace(reduction=wait)
        else:
            rounds[-1] = rounds[-1]._replace(delay=wait)
    return rounds


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
        self.under_way.append((Message(*self.route(self.rank, target), n_bytes), received))

    def follow(self) -> list[int | Message] | None:
        waits: list[int | Message] = []
        while not self.ended:
            step, self.under_way = self.under_way, []
            if len({what for what, _ in step}) != 1:
                return None
            what = step[0][0]
            waits.append(what._replace(peers=len(step)) if isinstance(what, Message) else what)
            for _, call in step:
                call()
        return waits
