"""The ports of all ranks into all dimensions, and the queues of chunks in front of them.

Each rank has one port for each dimension, which runs one phase at a time, as in
:mod:`engine.kernels.phase.kernel`.  A phase of a chunk is run by a *line*: the members of the group
that differ in the phase's dimension only.  The phase is queued when all members have finished the
previous phase, and starts when it heads all their queues and all their ports are free.  A *job* is
such a phase, or a point-to-point message.

A job is overtaken while another job heads the queue of one of its other members.  No job overtakes
one that heads all its queues and waits for ports only.  The job that was queued first of all heads
all its queues, so members never wait for one another in a circle, and no job waits for ever.

A port is free again when the phase's bytes have arrived, left and been reduced, and the chunk then
continues at once.  The chunk carries its lateness along (:mod:`engine.kernels.reference.exchange`).
Packets experience latencies on their way, so in packet fidelity a port is free when all its
messages have left it: while a phase waits for messages in flight, the port serves the next phase,
and the messages of both share it.
"""

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from dimsweep.engine.kernels.messages.phases import Crossing, Line, Phase, Phases
from dimsweep.engine.kernels.messages.program import PhaseSpan
from dimsweep.engine.kernels.reference.exchange import Job, World, begin_job
from dimsweep.engine.kernels.reference.transport import Sending
from dimsweep.engine.kinds import QueueOrder
from dimsweep.engine.lower.program import POINT_TO_POINT, Program


@dataclass
class _Part:
    """A rank's part in a flow: the number of chunks left, and the times of finished chunks."""

    chunks: int  # that are not through
    through: tuple[int, int] = (0, 0)  # when the last of the others was (ps), from which dimension
    due: int = 0  # when the latest of them has arrived (ps)


class Flows:
    """The flows of a program with one class per rank, as chunks that pass from phase to phase.

    ``submit`` queues a job; ``done(flow, rank)`` is called when a rank has finished its part of a
    flow: after the last of its chunks and the latencies behind it.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        submit: Callable[[Job], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._program, self._world, self._submit, self._done = program, world, submit, done
        self._phases = Phases(program, world.transport.network, world.transport.plan)
        self._parts: dict[tuple[int, int], _Part] = {}  # by flow and rank
        # By flow, chunk, phase and the first rank of a line: who has come, and how late.
        self._gathering: dict[tuple[int, int, int, int], dict[int, int]] = defaultdict(dict)

    def start(self, flow: int) -> None:
        """Start a flow, all of whose members have arrived: queue its chunks or its message."""
        s = self._program.structure
        record = s.flows[flow]
        form = s.forms[record["form"]]
        ranks = s.members["cls"][record["member_start"] : record["member_end"]].tolist()
        if form["kind"] == POINT_TO_POINT:
            self._parts[flow, ranks[0]] = _Part(1)
            crossing, line = self._phases.crossing(flow), Line(tuple(ranks))
            done = partial(self._leave, flow, crossing.dim)
            order = int(record["key"]), 0
            self._submit(Job(crossing, line, self._name(flow), order, 0, {ranks[0]: 0}, done))
            return
        for rank in ranks:
            self._parts[flow, rank] = _Part(int(form["chunks"]))
        for chunk in range(form["chunks"]):
            for rank in ranks:
                self._enter(flow, chunk, 0, 0, rank, 0)

    def _enter(self, flow: int, chunk: int, number: int, dim: int, rank: int, late: int) -> None:
        """Register a rank, ``late`` by some ps, for phase ``number`` of its chunk.

        The chunk arrives from the rank's port into dimension ``dim``.
        """
        step = self._phases.step(flow, chunk, number, rank)
        if step is None:
            self._leave(flow, dim, rank, late)
            return
        phase, line = step
        place = flow, chunk, number, line.ranks[0]
        self._gathering[place][rank] = late
        if len(self._gathering[place]) < len(line.ranks):
            return
        s = self._program.structure
        record = s.flows[flow]
        self._submit(
            Job(
                phase,
                line,
                self._name(flow),
                order=(int(record["key"]), chunk),
                priority=int(s.forms[record["form"]]["priority"]),
                late=self._gathering.pop(place),
                done=partial(self._enter, flow, chunk, number + 1, phase.dim),
            )
        )

    def _leave(self, flow: int, dim: int, rank: int, late: int) -> None:
        """Count a rank's completed chunk, which left the port into ``dim`` after its last phase."""
        part, now = self._parts[flow, rank], self._world.clock.ps
        part.chunks -= 1
        part.through = max(part.through, (now, dim))
        part.due = max(part.due, now + late)
        if part.chunks:
            return
        if part.due == now:
            self._done(flow, rank)
            return
        account, (_, last) = self._world.accounts[rank], part.through
        account.book()
        account.late[last] += 1

        def arrive() -> None:
            account.book()
            account.late[last] -= 1
            self._done(flow, rank)

        self._world.clock.call_later(part.due - now, arrive)

    def _name(self, flow: int) -> str:
        s = self._program.structure
        return self._program.names.node[s.members["node"][s.flows["member_start"][flow]]]


@dataclass
class _Port:
    queue: list[Job] = field(default_factory=list)
    serving: Job | None = None  # the last one that it was given, until it is free
    leaving: int = 0  # messages, in packets

    @property
    def is_free(self) -> bool:
        return self.serving is None and not self.leaving


class Ports:
    """The ports of all ranks, each with a queue of jobs."""

    def __init__(self, world: World, n_dims: int, queue_order: int, *, shares: bool) -> None:
        self._world, self._queue_order, self._shares = world, queue_order, shares
        self._ports = [[_Port() for _ in range(n_dims)] for _ in world.accounts]
        self._moving: list[Job] = []
        self._touched: dict[tuple[int, int], None] = {}
        self.spans: list[PhaseSpan] = []

    def submit(self, job: Job) -> None:
        """Queue a job at the end of this instant."""
        self._moving.append(job)
        self._world.clock.touch()

    def _touch(self, rank: int, dim: int) -> None:
        """Request a check, at the end of this instant, of whether a port can start a job."""
        self._touched[rank, dim] = None
        self._world.clock.touch()

    def settle(self) -> None:
        """Queue the jobs submitted in this instant, then start those that head all their queues."""
        moving, self._moving = self._moving, []
        for job in sorted(moving, key=lambda job: job.order):
            for rank in job.line.ranks:
                queue = self._ports[rank][job.phase.dim].queue
                head = queue[0] if queue else job
                self._enqueue(queue, job)
                self._touched[rank, job.phase.dim] = None
                if queue[0] is not head:  # which is first no more
                    self._touched.update(
                        dict.fromkeys((r, head.phase.dim) for r in head.line.ranks)
                    )
        touched, self._touched = self._touched, {}
        for rank, dim in touched:
            port = self._ports[rank][dim]
            if not port.queue:
                continue
            job = port.queue[0]
            if self._shares_port(job) or (
                port.is_free and self._heads_all(job) and self._are_free(job)
            ):
                self._start(job)
        while passing := self._find_passing(touched):
            for job in passing:
                self._start(job)
        for rank, dim in touched:
            queue = self._ports[rank][dim].queue
            if queue and self._shares_port(queue[0]):
                self._touch(rank, dim)

    def _shares_port(self, job: Job) -> bool:
        """Return whether a job may start although its port serves another message."""
        return self._shares and isinstance(job.phase, Crossing)

    def _enqueue(self, queue: list[Job], job: Job) -> None:
        """Insert a job into a port's queue; point-to-point messages go before chunks."""
        messages = sum(isinstance(other.phase, Crossing) for other in queue)
        if isinstance(job.phase, Crossing):
            queue.insert(messages, job)
        elif self._queue_order == QueueOrder.FIFO:
            queue.append(job)
        elif self._queue_order == QueueOrder.LIFO:
            queue.insert(messages, job)
        else:
            bisect.insort(queue, job, lo=messages, key=self._urgency)

    def _urgency(self, job: Job) -> float:
        """Return the sort key of a job in a queue; equal keys are queued in order of arrival."""
        if self._queue_order == QueueOrder.PRIORITY:
            return -job.priority
        assert isinstance(job.phase, Phase)  # messages go before all chunks
        return job.phase.size

    def _find_passing(self, touched: Iterable[tuple[int, int]]) -> list[Job]:
        """Return the jobs that may overtake blocked ones, the first of each queue.

        All are found before any starts, so the order of the queues does not matter.
        """
        found: dict[Job, None] = {}
        for rank, dim in touched:
            port = self._ports[rank][dim]
            if port.is_free and port.queue and not self._heads_all(port.queue[0]):
                job = next(filter(self._can_pass, port.queue), None)
                if job is not None and self._is_first_to_pass(job):
                    found[job] = None
        return list(found)

    def _needed_ports(self, job: Job) -> list[_Port]:
        return [self._ports[rank][job.phase.dim] for rank in job.line.ranks]

    def _are_free(self, job: Job) -> bool:
        return all(port.is_free for port in self._needed_ports(job))

    def _heads_all(self, job: Job) -> bool:
        return all(port.queue[0] is job for port in self._needed_ports(job))

    def _can_pass(self, job: Job) -> bool:
        """Return whether the job is free to start and all heads of its queues are blocked."""
        heads = (port.queue[0] for port in self._needed_ports(job))
        return self._are_free(job) and not any(map(self._heads_all, heads))

    def _is_first_to_pass(self, job: Job) -> bool:
        """Return whether no earlier job in any queue of this job could overtake as well."""
        queues = (port.queue for port in self._needed_ports(job))
        before = (other for queue in queues for other in queue[: queue.index(job)])
        return not any(map(self._can_pass, before))

    def _start(self, job: Job) -> None:
        for rank, port in zip(job.line.ranks, self._needed_ports(job), strict=True):
            port.queue.remove(job)
            port.serving = job
            self._world.accounts[rank].book()
            self._world.accounts[rank].serving[job.phase.dim] += 1
        begin_job(self._world, job, self._send, partial(self._finish, job, self._world.clock.ps))

    def _send(self, sending: Sending) -> None:
        """Send a message from its port; in packets the port is free when all messages have left."""
        if self._world.transport.latency_passes_on_the_way:
            self._ports[sending.source][sending.dim].leaving += 1
            sending = sending._replace(left=partial(self._note_departure, sending))
        self._world.transport.send(sending)

    def _note_departure(self, sending: Sending) -> None:
        """Count a message whose last byte has left its port; the last one frees the port."""
        sending.left()
        port = self._ports[sending.source][sending.dim]
        port.leaving -= 1
        if not port.leaving:
            port.serving = None
            self._touch(sending.source, sending.dim)

    def _finish(self, job: Job, started: int, rank: int, late: int) -> None:
        dim, port = job.phase.dim, self._ports[rank][job.phase.dim]
        self._world.accounts[rank].book()
        self._world.accounts[rank].serving[dim] -= 1
        if port.serving is job:
            port.serving = None
        self._touch(rank, dim)
        self.spans.append(PhaseSpan(rank, dim, started, self._world.clock.ps, job.name))
        job.done(rank, late)
