"""One phase of one chunk, message by message, among the members of a line.

Each member goes its own way: it works through its strands (:mod:`engine.collective.rounds`) as
messages arrive, and has finished when it has received everything and its own messages have left.
"""

from collections import Counter
from collections.abc import Callable, Generator
from functools import lru_cache, partial
from typing import NamedTuple

import simpy

from engine.collective.algorithms import Algorithm
from engine.collective.rounds import MemberRounds, Strand, SwitchRounds
from engine.kernels.message.clock import Clock
from engine.kernels.message.transport import Message, Transport
from engine.kernels.phase.phase_time import whole
from engine.kinds import CollectiveKind

Finish = Callable[[int], None]


class World(NamedTuple):
    """What all exchanges share.  ``bytes_sent[rank][dim]`` counts the bytes that ranks send."""

    clock: Clock
    transport: Transport
    endpoint_delay: int  # ps a round
    reduce_time: float  # ps a byte
    bytes_sent: list[list[float]]

    def digestion(self, n_bytes: float) -> int:
        """Picoseconds that follow the arrival of a round's messages: endpoint delay, reduction."""
        return self.endpoint_delay + int(whole(n_bytes * self.reduce_time))


class Line(NamedTuple):
    """The members of a phase by their coordinate; in a ``circle`` they send both ways round."""

    ranks: tuple[int, ...]
    circle: bool = False


class Phase(NamedTuple):
    """A phase of a collective; ``n_bytes`` is what a member holds on entering it."""

    dim: int
    kind: CollectiveKind
    algorithm: Algorithm
    n_bytes: float

    def n_messages(self, line: Line) -> int:
        """How many messages the line's members send."""
        return self.algorithm.n_messages(self.kind, len(line.ranks), line.circle)

    def begin(self, world: World, line: Line, name: str, finish: Finish) -> None:
        """Start it on ``line``; ``finish`` is called with each rank that has done its part."""
        rounds = _rounds(self.algorithm, self.kind, len(line.ranks), line.circle)
        if isinstance(rounds, SwitchRounds):
            _through_switch(world, self, rounds, line.ranks, name, finish)
        else:
            _Exchange(world, self, rounds, line.ranks, name, finish)


@lru_cache(maxsize=64)
def _rounds(
    algorithm: Algorithm, kind: CollectiveKind, p: int, circle: bool
) -> MemberRounds | SwitchRounds:
    """Every chunk, and every line of a dimension, does the same."""
    return algorithm.rounds(kind, p, circle)


class Crossing(NamedTuple):
    """A message from point to point: queues at the port into ``dim``, crosses ``crosses``."""

    dim: int
    target: int
    n_bytes: float
    crosses: tuple[int, ...]

    def begin(self, world: World, line: Line, name: str, finish: Finish) -> None:
        """Send it from the line's only rank; ``finish`` is called when it has been delivered."""
        (source,) = line.ranks
        for dim in self.crosses:
            world.bytes_sent[source][dim] += self.n_bytes
        world.transport.send(
            source,
            self.target,
            Message(self.n_bytes, name),
            dim=self.dim,
            way=0,
            left=lambda: None,
            arrived=lambda: world.clock.later(world.endpoint_delay, lambda: finish(source)),
        )


class _Exchange:
    """A phase whose members send messages to one another."""

    def __init__(
        self,
        world: World,
        phase: Phase,
        rounds: MemberRounds,
        ranks: tuple[int, ...],
        name: str,
        finish: Finish,
    ) -> None:
        self._world, self._phase, self._ranks = world, phase, ranks
        self._name, self._finish = name, finish
        self._inboxes = [[_Inbox(world.clock) for _ in strands] for strands in rounds.strands]
        # What a member has still to do: strands to end, messages to get rid of.
        self._open = [
            sum(1 + sum(len(round_.send) for round_ in strand) for strand in strands)
            for strands in rounds.strands
        ]
        for member, strands in enumerate(rounds.strands):
            for number, strand in enumerate(strands):
                world.clock.process(self._work(member, number, strand))

    def _work(self, member: int, number: int, strand: Strand) -> Generator[simpy.Event, None, None]:
        world, phase, rank = self._world, self._phase, self._ranks[member]
        for receive, reduce, send in strand:
            if receive:
                yield self._inboxes[member][number].take(receive)
                yield world.clock.timeout(world.digestion(reduce * phase.n_bytes))
            for peer, fraction, way in send:
                message = Message(fraction * phase.n_bytes, self._name)
                world.bytes_sent[rank][phase.dim] += message.n_bytes
                world.transport.send(
                    rank,
                    self._ranks[peer],
                    message,
                    dim=phase.dim,
                    way=way,
                    left=partial(self._less, member),
                    arrived=partial(self._inboxes[peer][number].put, member),
                )
        self._less(member)

    def _less(self, member: int) -> None:
        self._open[member] -= 1
        if not self._open[member]:
            self._finish(self._ranks[member])


class _Inbox:
    """The messages that have come for one strand of a member."""

    def __init__(self, clock: Clock) -> None:
        self._event = clock.event
        self._early: Counter[int] = Counter()
        self._missing: Counter[int] = Counter()
        self._complete: simpy.Event | None = None

    def take(self, senders: tuple[int, ...]) -> simpy.Event:
        """An event that happens when one message from each of ``senders`` is there."""
        wanted = Counter(senders)
        self._missing = wanted - self._early
        self._early -= wanted
        self._complete = self._event()
        if not self._missing:
            self._complete.succeed()
        return self._complete

    def put(self, sender: int) -> None:
        if not self._missing[sender]:
            self._early[sender] += 1
            return
        self._missing[sender] -= 1
        if not self._missing.total() and self._complete is not None:
            self._complete.succeed()


def _through_switch(
    world: World,
    phase: Phase,
    rounds: SwitchRounds,
    ranks: tuple[int, ...],
    name: str,
    finish: Finish,
) -> None:
    """The switch reduces what members send up, and sends down to each what is for it."""
    missing: Counter[int] = Counter()  # messages that a rank has to get rid of, or to receive

    def less(rank: int) -> None:
        missing[rank] -= 1
        if not missing[rank]:
            world.clock.later(world.endpoint_delay, lambda: finish(rank))

    for sources, up, targets, _ in rounds.rounds:
        missing.update(ranks[member] for member in (*sources, *targets))
        for member in sources:
            world.bytes_sent[ranks[member]][phase.dim] += up * phase.n_bytes
    for sources, up, targets, down in rounds.rounds:
        world.transport.through_switch(
            [ranks[member] for member in sources],
            Message(up * phase.n_bytes, name),
            [ranks[member] for member in targets],
            Message(down * phase.n_bytes, name),
            left=less,
            arrived=less,
        )
