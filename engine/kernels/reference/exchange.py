"""The exchange of one phase of one chunk, message by message, among the members of a line.

Each member works through its strands (:mod:`engine.collective.rounds`) as messages arrive, and
finishes when it has received everything and its own messages have left.

Bytes and latencies are counted separately.  A member sends a round when the bytes that it waits for
have arrived and are reduced, as if their latency were zero, and counts how *late* it is: the sum of
the latencies and endpoint delays along the longest chain of messages before it, including its
chunk's earlier phases.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import simpy

from dimsweep.engine.collective.rounds import MemberRounds, Strand, SwitchRounds
from dimsweep.engine.kernels.messages.phases import Crossing, Line, Phase
from dimsweep.engine.kernels.messages.program import Measures, measures_by_rank, round_ps
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.transport import Message, Sending, Switched, Transport


class RankAccount:
    """The time account of a rank, booked as :mod:`engine.kernels.phase.kernel` books a class's.

    Call :meth:`book` before each change of the rank.  Communication is exposed while the rank
    computes nothing.  An instant of exposed communication is shared equally among the operators in
    flight, and among the dimensions that serve the rank or in which the last latencies of a flow
    pass.
    """

    def __init__(self, clock: Clock, n_dims: int, n_tallies: int) -> None:
        self.computing = False
        self.in_flight = np.zeros(n_tallies, dtype=np.int64)  # operators
        self.serving = np.zeros(n_dims, dtype=np.int64)  # phases
        self.late = np.zeros(n_dims, dtype=np.int64)  # flows from each whose last latencies pass
        self.compute = self.exposed = 0  # ps
        self.exposed_by_tally = np.zeros(n_tallies)
        self.exposed_by_dim = np.zeros(n_dims + 1)  # the last: waiting, no dimension serves
        self.busy = np.zeros(n_dims, dtype=np.int64)
        self.bytes_sent = [0.0] * n_dims
        self.end = 0
        self._clock, self._booked = clock, 0

    def book(self) -> None:
        """Add the time since the last change to the account."""
        span, self._booked = self._clock.ps - self._booked, self._clock.ps
        if not span:
            return
        self.busy[self.serving > 0] += span
        if self.computing:
            self.compute += span
            return
        operators = self.in_flight.sum()
        if operators:
            self.exposed += span
            self.exposed_by_tally += span * self.in_flight / operators
            dims = np.flatnonzero(self.serving + self.late)
            if len(dims):
                self.exposed_by_dim[dims] += span / len(dims)
            else:
                self.exposed_by_dim[-1] += span


def measure_accounts(accounts: Sequence[RankAccount]) -> Measures:
    """Return the accounts of all ranks as the measures of one point."""

    def column(name: str) -> np.ndarray:
        return np.array([getattr(account, name) for account in accounts])

    names = ("end", "compute", "exposed", "exposed_by_dim", "exposed_by_tally", "busy")
    return measures_by_rank(**{name: column(name) for name in (*names, "bytes_sent")})


Finish = Callable[[int, int], None]  # a rank, and how late it is (ps)


class World(NamedTuple):
    """The clock, transport, time accounts (by rank) and delays that all modules of a run share."""

    clock: Clock
    transport: Transport
    accounts: Sequence[RankAccount]
    endpoint_delay: int  # ps a round
    reduce_time: float  # ps a byte


@dataclass(frozen=True, eq=False)
class Job:
    """One phase of one chunk on one line, or a point-to-point message."""

    phase: Phase | Crossing
    line: Line
    name: str
    order: tuple[int, int]  # among jobs queued at the same instant: the flow's key, the chunk
    priority: int
    late: Mapping[int, int]  # how late each rank is (ps)
    done: Finish  # called with each rank that has done its part


def begin_job(world: World, job: Job, send: Callable[[Sending], None], finish: Finish) -> None:
    """Start a job, whose messages leave through the function ``send``.

    ``finish`` is called with each rank whose bytes have arrived and left, and with its lateness
    (ps).
    """
    phase = job.phase
    if isinstance(phase, Crossing):
        send(_crossing(world, job, phase, finish))
        return
    rounds = phase.rounds(job.line)
    if isinstance(rounds, SwitchRounds):
        _through_switch(world, job, rounds, finish)
        return
    exchange = _Exchange(world, job, rounds, send, finish)
    for member, strands in enumerate(rounds.strands):
        for number, strand in enumerate(strands):
            world.clock.process(exchange.work(member, number, strand))


def _crossing(world: World, job: Job, crossing: Crossing, finish: Finish) -> Sending:
    """Return the message to send for a point-to-point job."""
    (source,) = job.line.ranks
    for dim in crossing.crosses:
        world.accounts[source].bytes_sent[dim] += crossing.n_bytes
    late = job.late[source] + world.endpoint_delay
    return Sending(
        Message(crossing.n_bytes, job.name, (crossing.precedence, 0)),
        source,
        crossing.target,
        crossing.dim,
        way=0,
        left=lambda: None,
        arrived=lambda latency: finish(source, late + latency),
    )


class _Exchange:
    """A running phase, in which the members of a line send messages to one another."""

    def __init__(
        self,
        world: World,
        job: Job,
        rounds: MemberRounds,
        send: Callable[[Sending], None],
        finish: Finish,
    ) -> None:
        self._world, self._job, self._ranks = world, job, job.line.ranks
        self._send, self._finish = send, finish
        self._inboxes = [
            [_Inbox(world.clock, asks=rounds.asked) for _ in strands] for strands in rounds.strands
        ]
        # What a member has still to do: strands to end, messages to get rid of.
        self._open = [
            sum(1 + sum(len(round_.send) for round_ in strand) for strand in strands)
            for strands in rounds.strands
        ]
        self._late = [job.late[rank] for rank in self._ranks]

    def work(self, member: int, number: int, strand: Strand) -> Generator[simpy.Event, int, None]:
        """Run one strand of a member, as a process."""
        world, phase, late = self._world, self._job.phase, self._late[member]
        rank, left = self._ranks[member], partial(self._count_down, member)
        for receive, reduce, send in strand:
            if receive:
                latest = yield self._inboxes[member][number].take(receive, late)
                late = max(late, latest) + world.endpoint_delay
                reduction = reduce * phase.n_bytes * world.reduce_time
                yield world.clock.timeout(round_ps(reduction))
            for peer, fraction, way in send:
                # What began first is let through first, so that one strand makes way for the next.
                order = phase.precedence, number
                message = Message(fraction * phase.n_bytes, self._job.name, order)
                world.accounts[rank].bytes_sent[phase.dim] += message.n_bytes
                inbox, target = self._inboxes[peer][number], self._ranks[peer]
                arrived = partial(inbox.put, member, late)
                sending = Sending(message, rank, target, phase.dim, way, left, arrived)
                inbox.send_when_asked(member, partial(self._send, sending))
        self._late[member] = max(self._late[member], late)
        self._count_down(member)

    def _count_down(self, member: int) -> None:
        """Count an ended strand, or a message that left, of a member; the last one finishes it."""
        self._open[member] -= 1
        if not self._open[member]:
            self._finish(self._ranks[member], self._late[member])


class _Inbox:
    """The messages that arrived for one strand of a member, by sender, each with its lateness (ps).

    If it ``asks`` for messages, each message waits for the member's request, and is at least as
    late as the request.
    """

    def __init__(self, clock: Clock, *, asks: bool) -> None:
        self._clock, self._asks = clock, asks
        self._early: defaultdict[int, deque[int]] = defaultdict(deque)  # of each sender
        self._missing: Counter[int] = Counter()  # by sender
        self._held: defaultdict[int, deque[Callable[[], None]]] = defaultdict(deque)  # by sender
        self._asked: set[int] = set()  # of whom nothing is on its way
        self._asked_late = 0
        self._latest = 0  # of those that are taken
        self._complete = clock.event()

    def take(self, senders: tuple[int, ...], late: int) -> simpy.Event:
        """Return an event that succeeds with one message from each of ``senders``.

        The event's value is the messages' maximum lateness.  The member, itself ``late`` by some
        ps, requests them.
        """
        self._latest, self._complete = 0, self._clock.event()
        self._asked_late = late if self._asks else 0
        for sender in senders:
            if self._early[sender]:
                self._latest = max(self._latest, self._early[sender].popleft())
                continue
            self._missing[sender] += 1
            if self._held[sender]:
                self._held[sender].popleft()()
            else:
                self._asked.add(sender)
        self._end_if_complete()
        return self._complete

    def send_when_asked(self, sender: int, go: Callable[[], None]) -> None:
        """Call ``go``, which sends a message: after the receiver's request if requests are used."""
        if not self._asks:
            go()
        elif sender in self._asked:
            self._asked.remove(sender)
            go()
        else:
            self._held[sender].append(go)

    def put(self, sender: int, late: int, latency: int) -> None:
        """Add a message that left ``late`` and whose own ``latency`` has not passed."""
        late = max(late, self._asked_late) + latency
        if not self._missing[sender]:
            self._early[sender].append(late)
            return
        self._missing[sender] -= 1
        self._latest = max(self._latest, late)
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if not self._missing.total():
            self._complete.succeed(self._latest)


def _through_switch(world: World, job: Job, rounds: SwitchRounds, finish: Finish) -> None:
    """Send the members' messages up to a switch, and the reduced results down to the targets."""
    phase, ranks = job.phase, job.line.ranks
    missing: Counter[int] = Counter()  # messages that a rank has to get rid of, or to receive
    latest = dict(job.late)

    def count_down(rank: int, late: int = 0) -> None:
        missing[rank] -= 1
        latest[rank] = max(latest[rank], late)
        if not missing[rank]:
            finish(rank, latest[rank] + world.endpoint_delay)

    def arrive(risen: int, rank: int, latency: int) -> None:
        count_down(rank, risen + latency)

    for sources, up, targets, _ in rounds.rounds:
        missing.update(ranks[member] for member in (*sources, *targets))
        for member in sources:
            world.accounts[ranks[member]].bytes_sent[phase.dim] += up * phase.n_bytes
    for sources, up, targets, down in rounds.rounds:
        risen = max(job.late[ranks[member]] for member in sources)
        order = phase.precedence, 0
        world.transport.send_through_switch(
            Switched(
                [ranks[member] for member in sources],
                Message(up * phase.n_bytes, job.name, order),
                [ranks[member] for member in targets],
                Message(down * phase.n_bytes, job.name, order),
                left=count_down,
                arrived=partial(arrive, risen),
            )
        )
