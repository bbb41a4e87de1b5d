"""One phase of one chunk, message by message, among the members of a line.

Each member goes its own way: it works through its strands (:mod:`engine.collective.rounds`) as
messages arrive, and has finished when it has received everything and its own messages have left.

Work and latencies are counted apart: a member sends a round when the bytes that it waits for are
there and reduced, as if their latency took no time, and knows how *late* it really is: by the
latencies and endpoint delays of the longest chain of messages behind it, of its chunk's earlier
phases too.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

import simpy

from engine.collective.algorithms import Algorithm
from engine.collective.rounds import MemberRounds, Strand, SwitchRounds
from engine.kernels.messages.phases import Crossing, Line, Phase
from engine.kernels.phase.phase_time import whole
from engine.kernels.reference.carried import CarriedTransport
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.crossing import Message
from engine.kernels.reference.transport import Transport
from engine.kinds import CollectiveKind

Finish = Callable[[int, int], None]  # a rank, and how late it is (ps)
Late = Mapping[int, int]  # how late each rank is


class World(NamedTuple):
    """What all exchanges share.  ``bytes_sent[rank][dim]`` counts the bytes that ranks send."""

    clock: Clock
    transport: Transport | CarriedTransport
    endpoint_delay: int  # ps a round
    reduce_time: float  # ps a byte
    bytes_sent: list[list[float]]

    def reduction(self, n_bytes: float) -> int:
        """Picoseconds in which a round's messages are reduced."""
        return int(whole(n_bytes * self.reduce_time))


def begin(
    world: World, phase: Phase | Crossing, line: Line, late: Late, name: str, finish: Finish
) -> None:
    """Start a phase, or a message, on ``line``, whose ranks are ``late``.

    ``finish`` is called with each rank whose bytes have come and gone, and how late it is then.
    """
    if isinstance(phase, Crossing):
        _cross(world, phase, line, late, name, finish)
        return
    rounds = _rounds(phase.algorithm, phase.kind, len(line.ranks), line.circle)
    if isinstance(rounds, SwitchRounds):
        _through_switch(world, phase, rounds, line.ranks, late, name, finish)
    else:
        _Exchange(world, phase, rounds, line.ranks, late, name, finish)


@lru_cache(maxsize=64)
def _rounds(
    algorithm: Algorithm, kind: CollectiveKind, p: int, circle: bool
) -> MemberRounds | SwitchRounds:
    """Every chunk, and every line of a dimension, does the same."""
    return algorithm.rounds(kind, p, circle)


def _cross(
    world: World, crossing: Crossing, line: Line, late: Late, name: str, finish: Finish
) -> None:
    """Send a message from point to point from the line's only rank."""
    (source,) = line.ranks
    for dim in crossing.crosses:
        world.bytes_sent[source][dim] += crossing.n_bytes
    world.transport.send(
        source,
        crossing.target,
        Message(crossing.n_bytes, name, (crossing.precedence, 0)),
        dim=crossing.dim,
        way=0,
        left=lambda: None,
        arrived=lambda way: finish(source, late[source] + way + world.endpoint_delay),
    )


class _Exchange:
    """A phase whose members send messages to one another."""

    def __init__(
        self,
        world: World,
        phase: Phase,
        rounds: MemberRounds,
        ranks: tuple[int, ...],
        late: Late,
        name: str,
        finish: Finish,
    ) -> None:
        self._world, self._phase, self._ranks = world, phase, ranks
        self._name, self._finish = name, finish
        self._inboxes = [[_Inbox(world.clock) for _ in strands] for strands in rounds.strands]
        self._asked = rounds.asked
        # What a member has still to do: strands to end, messages to get rid of.
        self._open = [
            sum(1 + sum(len(round_.send) for round_ in strand) for strand in strands)
            for strands in rounds.strands
        ]
        self._late = [late[rank] for rank in ranks]
        for member, strands in enumerate(rounds.strands):
            for number, strand in enumerate(strands):
                world.clock.process(self._work(member, number, strand))

    def _work(self, member: int, number: int, strand: Strand) -> Generator[simpy.Event, int, None]:
        world, phase, rank = self._world, self._phase, self._ranks[member]
        late = self._late[member]
        for receive, reduce, send in strand:
            if receive:
                came = yield self._inboxes[member][number].take(receive, late)
                late = max(late, came) + world.endpoint_delay
                yield world.clock.timeout(world.reduction(reduce * phase.n_bytes))
            for peer, fraction, way in send:
                # What began first is let through first, so that one strand makes way for the next.
                message = Message(fraction * phase.n_bytes, self._name, (phase.precedence, number))
                world.bytes_sent[rank][phase.dim] += message.n_bytes
                there = self._inboxes[peer][number]
                go = partial(self._send, member, peer, message, way, there, late)
                if self._asked:
                    there.when_asked(member, go)
                else:
                    go(late)
        self._late[member] = max(self._late[member], late)
        self._less(member)

    def _send(
        self,
        member: int,
        peer: int,
        message: Message,
        way: int,
        there: "_Inbox",
        late: int,
        asked_late: int,
    ) -> None:
        """Send a message to a peer's inbox; whoever asked for it was late, too."""
        self._world.transport.send(
            self._ranks[member],
            self._ranks[peer],
            message,
            dim=self._phase.dim,
            way=way,
            left=partial(self._less, member),
            arrived=partial(there.put, member, max(late, asked_late)),
        )

    def _less(self, member: int) -> None:
        self._open[member] -= 1
        if not self._open[member]:
            self._finish(self._ranks[member], self._late[member])


class _Inbox:
    """The messages that have come for one strand of a member, each by how late it is, and those
    that wait until they are asked for."""

    def __init__(self, clock: Clock) -> None:
        self._event = clock.event
        self._early: defaultdict[int, deque[int]] = defaultdict(deque)
        self._missing: Counter[int] = Counter()
        self._held: defaultdict[int, deque[Callable[[int], None]]] = defaultdict(deque)
        self._asks: dict[int, int] = {}  # how late, of whom nothing is on its way
        self._late = 0  # of those that are taken
        self._complete: simpy.Event | None = None

    def take(self, senders: tuple[int, ...], late: int) -> simpy.Event:
        """An event that happens when one message from each of ``senders`` is there; its value is
        how late the latest of them is.  The member is ``late`` as it asks for them."""
        self._late, self._complete = 0, self._event()
        for sender in senders:
            if self._early[sender]:
                self._late = max(self._late, self._early[sender].popleft())
                continue
            self._missing[sender] += 1
            if self._held[sender]:
                self._held[sender].popleft()(late)
            else:
                self._asks[sender] = late
        if not self._missing.total():
            self._complete.succeed(self._late)
        return self._complete

    def when_asked(self, sender: int, go: Callable[[int], None]) -> None:
        """Call ``go`` once the member asks for a message from ``sender``, with how late it was."""
        if sender in self._asks:
            go(self._asks.pop(sender))
        else:
            self._held[sender].append(go)

    def put(self, sender: int, late: int, on_the_way: int) -> None:
        """A message that left ``late``, and whose own latency is ``on_the_way``, is there."""
        if not self._missing[sender]:
            self._early[sender].append(late + on_the_way)
            return
        self._missing[sender] -= 1
        self._late = max(self._late, late + on_the_way)
        if not self._missing.total() and self._complete is not None:
            self._complete.succeed(self._late)


def _through_switch(
    world: World,
    phase: Phase,
    rounds: SwitchRounds,
    ranks: tuple[int, ...],
    late: Late,
    name: str,
    finish: Finish,
) -> None:
    """The switch reduces what members send up, and sends down to each what is for it."""
    missing: Counter[int] = Counter()  # messages that a rank has to get rid of, or to receive
    latest = dict(late)

    def less(rank: int, lateness: int = 0) -> None:
        missing[rank] -= 1
        latest[rank] = max(latest[rank], lateness)
        if not missing[rank]:
            finish(rank, latest[rank] + world.endpoint_delay)

    def arrive(risen: int, rank: int, way: int) -> None:
        less(rank, risen + way)

    for sources, up, targets, _ in rounds.rounds:
        missing.update(ranks[member] for member in (*sources, *targets))
        for member in sources:
            world.bytes_sent[ranks[member]][phase.dim] += up * phase.n_bytes
    for sources, up, targets, down in rounds.rounds:
        risen = max(late[ranks[member]] for member in sources)
        world.transport.through_switch(
            [ranks[member] for member in sources],
            Message(up * phase.n_bytes, name, (phase.precedence, 0)),
            [ranks[member] for member in targets],
            Message(down * phase.n_bytes, name, (phase.precedence, 0)),
            left=less,
            arrived=partial(arrive, risen),
        )
