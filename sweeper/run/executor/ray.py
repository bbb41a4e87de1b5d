"""An executor that simulates in Ray actors."""

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.rows import LOST, failed_row, labels
from dimsweep.sweeper.plugins import PluginShipment
from dimsweep.sweeper.run.executor import guest
from dimsweep.sweeper.run.executor.cluster import Cluster, Node, connect
from dimsweep.sweeper.run.executor.evaluate import Job, Outcome
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.executor.worker import Limits, Luggage, Worker

# A piece should last much longer than the overhead of a call (some milliseconds), but not so long
# that other workers wait at the end of a batch.
PIECE_SECONDS = 0.4
PIECES_PER_SECOND = 500  # that the driver hands out at most, to any number of workers
_MIN_PIECE_SECONDS = 0.005  # or calls take as long as their work
_FIRST_PIECE = 1  # a trial may take a microsecond or minutes
_LARGEST_PIECE = 4096
_MAX_TRIES = 2  # of a trial that a worker died over or that was lost otherwise
_DEPTH = 2  # pieces at a worker, so that it need not wait for the driver between them
_MAX_FAILED_STARTS = 3  # in a row, for each worker that is wanted
_REPORT_INTERVAL = 15.0  # seconds without any worker between two messages to the user
_GIVE_UP_AFTER = 900.0  # seconds without any worker: an autoscaler may need minutes for a node


@dataclass(eq=False)
class _Seat:
    """A worker that is requested or running: its actor, its queue of pieces and its node."""

    actor: Any
    load: int = _DEPTH  # full until it has started
    trials: int = 0  # of its pieces
    node: str = ""
    idle_since: float = 0.0


@dataclass(frozen=True)
class _Piece:
    """Trials waiting for a worker; ``avoid`` is a worker on which they failed before."""

    job: Job
    tries: int = 0
    avoid: _Seat | None = None

    @property
    def weight(self) -> int:
        """Share of a worker's queue, _DEPTH.

        A retried trial fills it, so its crash affects no other.
        """
        return _DEPTH if self.tries else 1


@dataclass(frozen=True)
class _Call:
    piece: _Piece
    seat: _Seat
    started: float


class RayExecutor:
    """An executor of Ray actors; each receives trials in pieces of a few tenths of a second.

    It requests ``executor.actors`` actors, or one per CPU of the cluster. An actor works as soon as
    it has started. Nodes may join and leave; other nodes take over the work of a lost node.

    A worker ends if a piece takes longer than ``timeout`` seconds, without its start and its queue.
    A dead worker is replaced, and each trial of its piece is tried again in isolation, so that a
    second fault identifies the cause. That trial becomes a lost row, as does a trial that lacks
    memory or a file on two workers.
    """

    worker: ClassVar[type[Worker]] = Worker

    def __init__(self, setup: Setup) -> None:
        config, cells, schema = setup.config, setup.cells, setup.schema
        self._cells, self._schema = {c.number: c for c in cells}, schema
        self._notify = setup.notify
        self._wanted, self._timeout = config.actors, float(config.timeout or 0)
        luggage = None if config.mode != "address" else Luggage.pack(cells)
        self._cluster = connect(config)
        self._ray = self._cluster.ray
        limits = Limits(self._timeout, int(config.memory or 0))
        plugins = PluginShipment({name for cell in cells for name in cell.config.plugins})
        inside = (plugins, self.worker, (list(cells), schema, limits, luggage))
        self._arguments = _guest_arguments(self._cluster, inside)
        self._actor = self._ray.remote(num_cpus=1)(guest.Guest)
        self._seats: list[_Seat] = []
        self._starting: dict[Any, _Seat] = {}
        self._failed_starts = 0
        self._waiting_since = self._reported_at = time.monotonic()
        self._queue: deque[_Piece] = deque()
        self._calls: dict[Any, _Call] = {}  # in the order of their start
        self._piece: dict[int, int] = {}  # cell -> trials in a piece
        self._done: deque[Outcome] = deque()
        self._match_nodes()

    @property
    def n_workers(self) -> int:
        """Number of workers, running or requested."""
        return len(self._seats)

    @property
    def n_nodes(self) -> int:
        """Number of machines on which workers have started."""
        return len({seat.node for seat in self._seats if seat.node})

    def submit(self, job: Job) -> None:
        if job.trials:
            self._queue.append(_Piece(job))
        self._dispatch()

    def collect(self) -> Outcome | None:
        self._match_nodes()
        if not self._done:
            with self._cluster.translate_errors():
                waiting = [*self._starting, *self._calls]
                done, _ = self._ray.wait(waiting, num_returns=1, timeout=1.0)
                for reference in done:
                    if reference in self._starting:
                        self._finish_start(reference)
                    else:
                        self._finish_call(reference)
                self._dispatch()
        return self._done.popleft() if self._done else None

    def close(self) -> None:
        try:
            for seat in self._seats:
                self._ray.kill(seat.actor)
        finally:
            self._cluster.close()

    # --- workers --------------------------------------------------------------------------------

    def _match_nodes(self) -> None:
        """Start and stop workers to match the nodes of the cluster."""
        lost = self._cluster.find_lost_nodes()
        for node in lost or ():
            self._release_node(node)
        if lost is not None:
            wanted = self._wanted or max(1, self._cluster.cpus)
            while len(self._seats) < wanted:
                self._seats.append(seat := _Seat(None))
                self._start(seat)
            for seat in list(self._starting.values()):  # those of a node that went
                if len(self._seats) > wanted:
                    self._dismiss(seat)
        if any(seat.node for seat in self._seats):
            self._waiting_since = self._reported_at = time.monotonic()
        elif time.monotonic() - self._reported_at > _REPORT_INTERVAL:
            self._reported_at = time.monotonic()
            self._report_waiting(self._reported_at - self._waiting_since)

    def _report_waiting(self, seconds: float) -> None:
        """Report that no worker has started for ``seconds``; raise after :data:`_GIVE_UP_AFTER`."""
        free = self._ray.available_resources().get("CPU", 0)
        what = f"the Ray cluster has {self._cluster.cpus} CPUs, of which {free:g} are free"
        if seconds > _GIVE_UP_AFTER:
            raise DimsweepError(
                f"no worker started in {seconds:.0f} s: {what}",
                where="executor",
                code="inaccessible",
            )
        self._notify(f"waiting for a worker since {seconds:.0f} s: {what}")

    def _release_node(self, node: Node) -> None:
        """Queue again the trials that the workers of a lost node had."""
        gone = [seat for seat in self._seats if seat.node == node.id]
        calls = [ref for ref, call in self._calls.items() if call.seat in gone]
        pieces = [self._calls.pop(reference).piece for reference in calls]
        self._queue.extendleft(reversed(pieces))
        for seat in gone:
            self._dismiss(seat)
        self._notify(f"the node {node.address} is lost; other nodes do its work")

    def _dismiss(self, seat: _Seat) -> None:
        self._ray.kill(seat.actor)
        self._seats.remove(seat)
        self._starting = {ref: each for ref, each in self._starting.items() if each is not seat}

    def _start(self, seat: _Seat) -> None:
        """Start a worker; it gets no work until its start is complete."""
        seat.actor, seat.load, seat.node = self._actor.remote(*self._arguments), _DEPTH, ""
        seat.trials = 0
        self._starting[seat.actor.node_id.remote()] = seat

    def _finish_start(self, reference: Any) -> None:
        seat = self._starting.pop(reference)
        try:
            seat.node = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            cause = str(error).strip().splitlines()[-1]
            if self._failed_starts > _MAX_FAILED_STARTS * self.n_workers or "NODE " in cause:
                cause = cause.rpartition("NODE ")[2]
                raise DimsweepError(
                    f"no worker starts: {cause}", where="executor", code="inaccessible"
                ) from error
            self._start(seat)
        else:
            seat.load, self._failed_starts = 0, 0

    # --- pieces ---------------------------------------------------------------------------------

    def _finish_call(self, reference: Any) -> None:
        """Take the outcome of a finished call, or notice that its worker has died."""
        call = self._calls[reference]
        try:
            outcome, seconds = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._replace_dead(call, error)
            return
        del self._calls[reference]
        call.seat.load -= call.piece.weight
        call.seat.trials -= len(call.piece.job.trials)
        call.seat.idle_since = time.monotonic()
        self._adapt(call.piece.job, seconds)
        lost = outcome.lost
        if lost and call.piece.tries + 1 < _MAX_TRIES:
            outcome = outcome.without_lost()
            self._retry(call.piece, lost, avoid=call.seat)
        self._done.append(outcome)

    def _replace_dead(self, last: _Call, error: Exception) -> None:
        """Replace a dead worker.

        Retry the piece that it worked on, and queue its waiting piece again.
        """
        calls = {ref: call for ref, call in self._calls.items() if call.seat is last.seat}
        for reference in calls:
            del self._calls[reference]
        running, *waited = calls.values()
        self._queue.extendleft(call.piece for call in reversed(waited))
        seconds = time.monotonic() - max(running.started, last.seat.idle_since)
        self._ray.kill(last.seat.actor)  # it may live on, and would keep its CPU from the new one
        self._start(last.seat)
        piece = running.piece
        if piece.tries + 1 < _MAX_TRIES or len(piece.job.trials) > 1:
            self._retry(piece, piece.job.keys)
            return
        why = f"its worker died: {type(error).__name__}"
        if self._timeout and seconds >= self._timeout:
            why = f"it took longer than {self._timeout:g} s (executor.timeout)"
        cell = piece.job.cell_config or self._cells[piece.job.cell]
        named = labels(cell, piece.job.trials, piece.job.keys)
        own = {name: column[0] for name, column in named.items()}
        row = failed_row(self._schema, own, piece.job.trials[0].bandwidth, why, LOST)
        lost = frozenset(piece.job.keys)
        self._done.append(Outcome(pa.Table.from_batches([row]), 0.0, lost))

    def _retry(self, piece: _Piece, keys: Collection[str], avoid: _Seat | None = None) -> None:
        alone = [_Piece(job, piece.tries + 1, avoid) for job in piece.job.isolate(keys)]
        self._queue.extendleft(reversed(alone))

    def _dispatch(self) -> None:
        """Give pieces to workers; a short queue is shared evenly."""
        while self._queue:
            piece = self._queue[0]
            there = [seat for seat in self._seats if seat.node]
            able = [seat for seat in there if seat is not piece.avoid] or there
            seat = min(able, key=lambda seat: seat.load, default=None)
            if seat is None or seat.load + piece.weight > _DEPTH:
                return
            self._queue.popleft()
            job = piece.job
            todo = sum(len(each.job.trials) for each in (piece, *self._queue))
            share = -(-(todo + sum(each.trials for each in there)) // len(there)) - seat.trials
            most = self._piece.get(job.cell, _FIRST_PIECE)
            least = int(most * _MIN_PIECE_SECONDS / self._piece_seconds)
            size = min(most, max(share, least, 1))
            if size < len(job.trials):
                self._queue.appendleft(replace(piece, job=job.slice(size, None)))
            self._call(replace(piece, job=job.slice(0, size)), seat)

    def _call(self, piece: _Piece, seat: _Seat) -> None:
        call = _Call(piece, seat, time.monotonic())
        self._calls[seat.actor.evaluate.remote(piece.job)] = call
        seat.load += piece.weight
        seat.trials += len(piece.job.trials)

    @property
    def _piece_seconds(self) -> float:
        seconds = max(PIECE_SECONDS, len(self._seats) / PIECES_PER_SECOND)
        # A time-out is one for a trial: all of a piece must not take as long.
        return min(seconds, self._timeout / 4) if self._timeout else seconds

    def _adapt(self, job: Job, seconds: float) -> None:
        size = len(job.trials)
        wanted = int(size * self._piece_seconds / max(seconds, 1e-6))
        now = self._piece.get(job.cell, _FIRST_PIECE)
        # Grow no more than fourfold at a time: the first piece also lowers and loads.
        self._piece[job.cell] = max(1, min(wanted, 4 * now, _LARGEST_PIECE))


def _guest_arguments(cluster: Cluster, inside: Any) -> tuple[Any, ...]:
    """Return the arguments of :class:`~dimsweep.sweeper.run.executor.guest.Guest`."""
    ray = cluster.ray
    ray.cloudpickle.register_pickle_by_value(guest)
    wanted, refers = guest.versions(), [ray.put(inside)]
    if cluster.is_ours:
        return None, [], wanted, refers
    files = guest.sources(Path(dimsweep.__file__).parent)
    return guest.digest(files), [ray.put(guest.pack(files))], wanted, refers
