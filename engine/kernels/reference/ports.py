"""The ports of all ranks into all dimensions, and the queues of chunks before them.

Each rank has one port for each dimension, which runs one phase at a time, as in
:mod:`engine.kernels.phase.kernel`.  A phase of a chunk is run by a *line*: the members of the group
that differ in the phase's dimension only.  It is queued when all of them have finished the phase
before, and starts when it heads all their queues and all their ports are free.

A job is passed over while something else heads the queue of another member.  Nothing passes a job
that heads all its queues and waits for ports only.  The job that was queued first of all heads all
its queues, so members never wait for one another in a circle, and nobody waits for ever.

A port is free again when the phase's bytes have come, gone and been reduced, and the chunk moves on
at once.  It takes along how late it is (:mod:`engine.kernels.reference.exchange`).  In packets,
whose latencies pass on their way, a port is free when all that it was given has left it: while a
phase waits for what is on its way, the port serves the next one, and what both send then shares it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from engine.kernels.messages.phases import Crossing, Line, Phase
from engine.kernels.messages.run import PhaseSpan
from engine.kernels.reference.exchange import Finish, Late, World, begin
from engine.kernels.reference.ranks import RankAccount
from engine.kinds import QueueOrder


@dataclass(frozen=True, eq=False)
class Job:
    """One phase of one chunk on one line, or a message from point to point."""

    phase: Phase | Crossing
    line: Line
    name: str
    order: tuple[int, int]  # among jobs queued at the same instant: the flow's key, the chunk
    priority: int
    late: Late
    done: Finish  # called with each rank that has done its part


@dataclass
class _Port:
    queue: list[Job] = field(default_factory=list)
    serving: Job | None = None  # the last one that it was given, until it is free
    leaving: int = 0  # messages, in packets

    @property
    def is_free(self) -> bool:
        return self.serving is None and not self.leaving


class Ports:
    """All ranks' ports.  ``touch`` asks for :meth:`settle` at the end of the instant."""

    def __init__(
        self,
        world: World,
        accounts: Sequence[RankAccount],
        n_dims: int,
        queue_order: int,
        touch: Callable[[], None],
    ) -> None:
        self._world, self._accounts = world, accounts
        self._queue_order, self._touch = queue_order, touch
        self._ports = [[_Port() for _ in range(n_dims)] for _ in accounts]
        self._moving: list[Job] = []
        self._touched: dict[tuple[int, int], None] = {}
        self.spans: list[PhaseSpan] = []

    def submit(self, job: Job) -> None:
        """Queue a job at the end of this instant."""
        self._moving.append(job)
        self._touch()

    def sends(self, rank: int, dim: int) -> None:
        """A message is to leave a port; see :class:`Senders`."""
        self._ports[rank][dim].leaving += 1

    def has_left(self, rank: int, dim: int) -> None:
        """Its last byte has left it, which may free the port."""
        port = self._ports[rank][dim]
        port.leaving -= 1
        if not port.leaving:
            port.serving = None
            self._touched[rank, dim] = None
            self._touch()

    def settle(self) -> None:
        """Queue what moved on, then start what heads all its queues."""
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
            if port.is_free and port.queue:
                job = port.queue[0]
                if self._heads_all(job) and self._are_free(job):
                    self._start(job)
        while passing := self._passing(touched):
            for job in passing:
                self._start(job)

    def _enqueue(self, queue: list[Job], job: Job) -> None:
        """Messages from point to point go before chunks, each among their own."""
        messages = sum(isinstance(other.phase, Crossing) for other in queue)
        if isinstance(job.phase, Crossing):
            queue.insert(messages, job)
        elif self._queue_order == QueueOrder.FIFO:
            queue.append(job)
        elif self._queue_order == QueueOrder.LIFO:
            queue.insert(messages, job)
        else:  # behind the last one that does not rank after it
            rank, chunks = self._rank(job), queue[messages:]
            after = (i for i, other in enumerate(chunks) if self._rank(other) > rank)
            queue.insert(messages + next(after, len(chunks)), job)

    def _rank(self, job: Job) -> float:
        return -job.priority if self._queue_order == QueueOrder.PRIORITY else job.phase.n_bytes

    def _passing(self, touched: Iterable[tuple[int, int]]) -> list[Job]:
        """The jobs that pass others; of those that could go, the first in a queue does.  All are
        found before any starts, so it does not matter whose queue is looked at first."""
        found: dict[Job, None] = {}
        for rank, dim in touched:
            port = self._ports[rank][dim]
            if port.is_free and port.queue and not self._heads_all(port.queue[0]):
                job = next(filter(self._can_pass, port.queue), None)
                if job is not None and self._is_first_to_pass(job):
                    found[job] = None
        return list(found)

    def _needed(self, job: Job) -> list[_Port]:
        return [self._ports[rank][job.phase.dim] for rank in job.line.ranks]

    def _are_free(self, job: Job) -> bool:
        return all(port.is_free for port in self._needed(job))

    def _heads_all(self, job: Job) -> bool:
        return all(port.queue[0] is job for port in self._needed(job))

    def _can_pass(self, job: Job) -> bool:
        """Whether the job could start, since whatever heads its queues must wait for others."""
        heads = (port.queue[0] for port in self._needed(job))
        return self._are_free(job) and not any(map(self._heads_all, heads))

    def _is_first_to_pass(self, job: Job) -> bool:
        """Whether no job that is before it in one of its queues could start as well."""
        queues = (port.queue for port in self._needed(job))
        before = (other for queue in queues for other in queue[: queue.index(job)])
        return not any(map(self._can_pass, before))

    def _start(self, job: Job) -> None:
        now, dim = self._world.clock.ps, job.phase.dim
        for rank in job.line.ranks:
            port = self._ports[rank][dim]
            port.queue.remove(job)
            port.serving = job
            self._accounts[rank].until(now)
            self._accounts[rank].serving[dim] += 1
        finish = partial(self._finish, job, now)
        begin(self._world, job.phase, job.line, job.late, job.name, finish)

    def _finish(self, job: Job, started: int, rank: int, late: int) -> None:
        now, dim = self._world.clock.ps, job.phase.dim
        self._accounts[rank].until(now)
        self._accounts[rank].serving[dim] -= 1
        if self._ports[rank][dim].serving is job:
            self._ports[rank][dim].serving = None
        self._touched[rank, dim] = None
        self.spans.append(PhaseSpan(rank, dim, started, now, job.name))
        self._touch()
        job.done(rank, late)
