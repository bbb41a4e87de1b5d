"""One phase of one chunk, message by message, among the members of a line.

Each member goes its own way: it works through its strands (:mod:`engine.collective.rounds`) as
messages arrive, and has finished when it has received everything and its own messages have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

import simpy

from engine.collective.rounds import Strand, n_messages, strands
from engine.kernels.message.clock import Clock
from engine.kernels.message.transport import Message, Transport
from engine.kernels.phase.phase_time import whole
from engine.workload.graph import CollectiveKind

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
    algorithm: str
    n_bytes: float

    @property
    def in_switch(self) -> bool:
        return self.algorithm == "in_switch" and self.kind is not CollectiveKind.ALL_TO_ALL

    def plan(self, line: Line, member: int) -> tuple[Strand, ...]:
        """What ``member`` of the line does."""
        p = len(line.ranks)
        return strands(self.kind, self.algorithm, p, member, line.circle)

    def n_messages(self, line: Line) -> int:
        """How many messages the line's members send."""
        p = len(line.ranks)
        if self.in_switch:
            return p * p if self.kind is CollectiveKind.ALL_GATHER else 2 * p
        return n_messages(self.kind, self.algorithm, p, line.circle)

    def begin(self, world: World, line: Line, name: str, finish: Finish) -> None:
        """Start it on ``line``; ``finish`` is called with each rank that has done its part."""
        if self.in_switch:
            _through_switch(world, self, line.ranks, name, finish)
        else:
            _Exchange(world, self, line, name, finish)


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

    def __init__(self, world: World, phase: Phase, line: Line, name: str, finish: Finish) -> None:
        self._world, self._phase, self._ranks = world, phase, line.ranks
        self._name, self._finish = name, finish
        plans = [phase.plan(line, member) for member in range(len(line.ranks))]
        self._inboxes = [[_Inbox(world.clock) for _ in plan] for plan in plans]
        # What a member has still to do: strands to end, messages to get rid of.
        self._open = [
            sum(1 + sum(len(round_.send) for round_ in strand) for strand in plan) for plan in plans
        ]
        for member, plan in enumerate(plans):
            for number, strand in enumerate(plan):
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
    world: World, phase: Phase, ranks: tuple[int, ...], name: str, finish: Finish
) -> None:
    """The switch reduces what all send up and returns each its part, or multicasts every shard."""
    gathers = phase.kind is CollectiveKind.ALL_GATHER
    scatters = phase.kind is CollectiveKind.REDUCE_SCATTER
    up = Message(phase.n_bytes, name)
    down = Message(phase.n_bytes / len(ranks), name) if scatters else up
    missing = dict.fromkeys(ranks, len(ranks) - 1 if gathers else 1)
    missing = {rank: messages + 1 for rank, messages in missing.items()}  # and the one it sends

    def less(rank: int) -> None:
        missing[rank] -= 1
        if not missing[rank]:
            world.clock.later(world.endpoint_delay, lambda: finish(rank))

    for rank in ranks:
        world.bytes_sent[rank][phase.dim] += phase.n_bytes
    each = [((rank,), tuple(other for other in ranks if other != rank)) for rank in ranks]
    for sources, targets in each if gathers else [(ranks, ranks)]:
        world.transport.through_switch(sources, up, targets, down, left=less, arrived=less)
