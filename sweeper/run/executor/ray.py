"""An executor of Ray actors, each with a whole engine."""

import logging
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

import engine
import sweeper
from engine import DimsweepError
from sweeper.config.study import Executor as ExecutorConfig
from sweeper.ledger.rows import LOST, Cell, failed_row, labels
from sweeper.run.executor.evaluate import Evaluator, Job, Outcome

# A piece should last long enough to make a call's overhead (about a millisecond) vanish, and not so
# long that the others wait at the end of a batch.
_PIECE_SECONDS = 0.1
_FIRST_PIECE = 1  # how long a trial takes is not known yet: a microsecond, or minutes
_LARGEST_PIECE = 4096
_MAX_TRIES = 2  # of a trial that a worker died over or that was lost otherwise
_DEPTH = 2  # pieces at a worker, so that it need not wait for the driver between them


class _Worker:
    """The actor: an evaluator, a stopwatch and a limit."""

    def __init__(self, cells: Sequence[Cell], schema: pa.Schema, limit: float) -> None:
        self._evaluator, self._limit = Evaluator(cells, schema), limit
        self._evaluator.warm()

    def evaluate(self, job: Job) -> tuple[Outcome, float]:
        start = time.perf_counter()
        # Nobody handles this alarm, so it ends the process, in the middle of compiled code too.
        signal.setitimer(signal.ITIMER_REAL, self._limit)
        try:
            outcome = self._evaluator.evaluate(job)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return outcome, time.perf_counter() - start


@dataclass(frozen=True)
class _Piece:
    """Trials that wait, the faults over them so far, and the worker that is not to try again."""

    job: Job
    tries: int = 0
    avoid: int | None = None

    @property
    def weight(self) -> int:
        """Of a worker's _DEPTH: what was tried before has a worker of its own, so that it takes no
        other down with it."""
        return _DEPTH if self.tries else 1


@dataclass(frozen=True)
class _Call:
    piece: _Piece
    worker: int
    actor: Any
    started: float


class RayExecutor:
    """Keeps every actor busy with pieces of about a tenth of a second.

    A worker whose piece takes longer than ``timeout`` seconds ends; neither its start nor what
    waits for it counts.  A worker that dies is replaced, and each trial of its piece tried again
    alone, so that after one more fault it is known which one is the cause.  That one becomes a lost
    row, as does one that lacks memory or a file at two workers.
    """

    worker: ClassVar[type[_Worker]] = _Worker

    def __init__(self, config: ExecutorConfig, cells: Sequence[Cell], schema: pa.Schema) -> None:
        import ray

        self._ray, self._timeout, self._schema = ray, float(config.timeout or 0), schema
        self._cells = {cell.number: cell for cell in cells}
        address = config.address if config.mode == "address" else None
        self.n_workers = _connect(ray, config.actors, address)
        self._arguments = (ray.put(list(cells)), ray.put(schema), self._timeout)
        self._actor = ray.remote(num_cpus=1)(self.worker)
        self._starting: dict[Any, int] = {}
        self._failed_starts = 0
        self._workers: list[Any] = [None] * self.n_workers
        self._load = [_DEPTH] * self.n_workers  # full until it has started
        self._idle_since = [0.0] * self.n_workers
        self._queue: deque[_Piece] = deque()
        self._calls: dict[Any, _Call] = {}  # in the order of their start
        self._piece: dict[int, int] = {}  # cell -> trials in a piece
        self._done: deque[Outcome] = deque()
        for worker in range(self.n_workers):
            self._start(worker)

    def submit(self, job: Job) -> None:
        if job.trials:
            self._queue.append(_Piece(job))
        self._dispatch()

    def collect(self) -> Outcome | None:
        if not self._done:
            waiting = [*self._starting, *self._calls]
            done, _ = self._ray.wait(waiting, num_returns=1, timeout=1.0)
            for reference in done:
                if reference in self._starting:
                    self._started(reference)
                else:
                    self._finished(reference)
            self._dispatch()
        return self._done.popleft() if self._done else None

    def close(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker)
        self._ray.shutdown()

    def _start(self, worker: int) -> None:
        """Have a worker started; it gets no work before it is there."""
        self._workers[worker] = actor = self._actor.remote(*self._arguments)
        self._load[worker] = _DEPTH
        self._starting[actor.__ray_ready__.remote()] = worker

    def _started(self, reference: Any) -> None:
        worker = self._starting.pop(reference)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts > 2 * self.n_workers:
                cause = str(error).strip().splitlines()[-1]
                raise DimsweepError(f"no worker starts: {cause}", where="executor") from error
            self._start(worker)
        else:
            self._load[worker], self._failed_starts = 0, 0

    def _finished(self, reference: Any) -> None:
        """Take a call's outcome, or find that its worker has died."""
        call = self._calls[reference]
        try:
            outcome, seconds = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._died(call, error)
            return
        del self._calls[reference]
        self._load[call.worker] -= call.piece.weight
        self._idle_since[call.worker] = time.monotonic()
        self._adapt(call.piece.job, seconds)
        lost = outcome.lost
        if lost and call.piece.tries + 1 < _MAX_TRIES:
            outcome = outcome.without_lost()
            self._again(call.piece, lost, avoid=call.worker)
        self._done.append(outcome)

    def _died(self, last: _Call, error: Exception) -> None:
        """A worker is gone: replace it.  It worked on its first piece; the next one only waited."""
        calls = {ref: call for ref, call in self._calls.items() if call.actor is last.actor}
        for reference in calls:
            del self._calls[reference]
        running, *waited = calls.values()
        self._queue.extendleft(call.piece for call in reversed(waited))
        seconds = time.monotonic() - max(running.started, self._idle_since[last.worker])
        self._ray.kill(last.actor)  # it may live on, and would keep its CPU from the new one
        self._start(last.worker)
        piece = running.piece
        if piece.tries + 1 < _MAX_TRIES or len(piece.job.trials) > 1:
            self._again(piece, piece.job.keys)
            return
        why = f"its worker died: {type(error).__name__}"
        if self._timeout and seconds >= self._timeout:
            why = f"it took longer than {self._timeout:g} s (executor.timeout)"
        named = labels(self._cells[piece.job.cell], piece.job.trials, piece.job.keys)
        own = {name: column[0] for name, column in named.items()}
        row = failed_row(self._schema, own, piece.job.trials[0].bandwidth, why, LOST)
        self._done.append(Outcome(pa.Table.from_batches([row]), 0.0))

    def _again(self, piece: _Piece, keys: Collection[str], avoid: int | None = None) -> None:
        alone = [_Piece(job, piece.tries + 1, avoid) for job in piece.job.alone(keys)]
        self._queue.extendleft(reversed(alone))

    def _dispatch(self) -> None:
        """Give workers pieces, sharing a short queue evenly."""
        while self._queue:
            piece = self._queue[0]
            able = [w for w in range(self.n_workers) if w != piece.avoid or self.n_workers == 1]
            worker = min(able, key=self._load.__getitem__)
            if self._load[worker] + piece.weight > _DEPTH:
                return
            self._queue.popleft()
            job = piece.job
            waiting = len(job.trials) + sum(len(other.job.trials) for other in self._queue)
            share = -(-waiting // self.n_workers)
            size = min(self._piece.get(job.cell, _FIRST_PIECE), share, _LARGEST_PIECE)
            if size < len(job.trials):
                self._queue.appendleft(replace(piece, job=job.part(size, None)))
            self._call(replace(piece, job=job.part(0, size)), worker)

    def _call(self, piece: _Piece, worker: int) -> None:
        actor = self._workers[worker]
        call = _Call(piece, worker, actor, time.monotonic())
        self._calls[actor.evaluate.remote(piece.job)] = call
        self._load[worker] += piece.weight

    def _adapt(self, job: Job, seconds: float) -> None:
        size = len(job.trials)
        wanted = int(size * _PIECE_SECONDS / max(seconds, 1e-6))
        now = self._piece.get(job.cell, _FIRST_PIECE)
        # Grow no more than fourfold at a time: the first piece also lowers and loads.
        self._piece[job.cell] = max(1, min(wanted, 4 * now, _LARGEST_PIECE))


def _connect(ray: Any, actors: int | None, address: str | None) -> int:
    """Start or join a cluster; returns the number of workers."""
    if actors is not None and actors < 1:
        raise DimsweepError(f"{actors} actors; it takes 1 or more", where="executor.actors")
    # Workers ask for no accelerator; without this Ray warns that it will stop hiding them.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        wanted = actors or os.cpu_count() or 1
        ray.init(num_cpus=wanted, include_dashboard=False, **quiet)
        return wanted
    try:
        host, _, port = address.rpartition(":")
        # Ray itself would try for a minute before it says that nobody is there.
        if port.isdecimal() and "/" not in host:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        # The other machines may not have dimsweep installed.
        code = {"py_modules": [engine, sweeper]}
        ray.init(address=address, runtime_env=code, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise DimsweepError(
            f"no Ray cluster answers at {address!r}: {error}",
            where="executor.address",
            hint="start one with: ray start --head",
        ) from error
    return actors or max(1, int(ray.cluster_resources().get("CPU", 1)))
