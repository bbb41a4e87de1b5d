"""An executor of Ray actors, each with a whole engine."""

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import engine
import sweeper
from engine import DimsweepError
from sweeper.config.study import Executor as ExecutorConfig
from sweeper.ledger.rows import Cell, failed_row, labels
from sweeper.run.executor.evaluate import Evaluator, Job, Outcome

# A piece should last long enough to make a call's overhead (about a millisecond) vanish, and not so
# long that the others wait at the end of a batch.
_PIECE_SECONDS = 0.1
_FIRST_PIECE = 1  # how long a trial takes is not known yet: a microsecond, or minutes
_LARGEST_PIECE = 4096
_MAX_DEATHS = 2  # of workers, over one trial, before it is given up
_DEPTH = 2  # pieces at a worker, so that it need not wait for the driver between them


class _Worker:
    """The actor: an evaluator and a stopwatch."""

    def __init__(self, cells: Sequence[Cell], schema: pa.Schema) -> None:
        self._evaluator = Evaluator(cells, schema)

    def evaluate(self, job: Job) -> tuple[Outcome, float]:
        start = time.perf_counter()
        outcome = self._evaluator.evaluate(job)
        return outcome, time.perf_counter() - start


@dataclass
class _Call:
    job: Job
    worker: int
    actor: Any
    started: float
    deaths: int
    weight: int  # of the worker's _DEPTH


class RayExecutor:
    """Keeps every actor busy with pieces of about a tenth of a second.

    A worker that dies or overruns ``timeout`` seconds is replaced and its piece tried again; a
    trial that kills its worker twice, alone, becomes a failed row.
    """

    def __init__(self, config: ExecutorConfig, cells: Sequence[Cell], schema: pa.Schema) -> None:
        import ray

        self._ray, self._timeout, self._schema = ray, float(config.timeout), schema
        self._cells = {cell.number: cell for cell in cells}
        address = config.address if config.mode == "address" else None
        self.n_workers = _connect(ray, config.actors, address)
        self._arguments = (ray.put(list(cells)), ray.put(schema))
        self._actor = ray.remote(num_cpus=1)(_Worker)
        self._workers: list[Any] = [self._start() for _ in range(self.n_workers)]
        self._load = [0] * self.n_workers
        self._queue: deque[tuple[Job, int]] = deque()
        self._calls: dict[Any, _Call] = {}
        self._piece: dict[int, int] = {}  # cell -> trials in a piece
        self._given_up: deque[Outcome] = deque()

    def submit(self, job: Job) -> None:
        if job.trials:
            self._queue.append((job, 0))
        self._dispatch()

    def collect(self) -> Outcome | None:
        if self._given_up:
            return self._given_up.popleft()
        done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=1.0)
        if not done:
            self._replace_overdue()
            return None
        call = self._calls.pop(done[0])
        try:
            outcome, seconds = self._ray.get(done[0])
        except self._ray.exceptions.RayError as error:
            self._lost(call, f"its worker died: {type(error).__name__}")
            return self._given_up.popleft() if self._given_up else None
        self._adapt(call.job, seconds)
        self._load[call.worker] -= call.weight
        self._dispatch()
        result: Outcome = outcome
        return result

    def close(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker)
        self._ray.shutdown()

    def _start(self) -> Any:
        return self._actor.remote(*self._arguments)

    def _dispatch(self) -> None:
        """Give workers pieces, sharing a short queue evenly.

        A piece over which a worker died gets a worker of its own, so that it takes no other down
        with it and, if that one dies too, is surely the cause.
        """
        while self._queue:
            job, deaths = self._queue[0]
            worker = min(range(self.n_workers), key=self._load.__getitem__)
            weight = _DEPTH if deaths else 1
            if self._load[worker] + weight > _DEPTH:
                return
            self._queue.popleft()
            waiting = len(job.trials) + sum(len(other.trials) for other, _ in self._queue)
            share = -(-waiting // self.n_workers)
            size = min(self._piece.get(job.cell, _FIRST_PIECE), share, _LARGEST_PIECE)
            if deaths:
                size = min(size, max(1, len(job.trials) // 2))
            head, tail = _split(job, size)
            if tail.trials:
                self._queue.appendleft((tail, deaths))
            actor = self._workers[worker]
            reference = actor.evaluate.remote(head)
            self._calls[reference] = _Call(head, worker, actor, time.monotonic(), deaths, weight)
            self._load[worker] += weight

    def _adapt(self, job: Job, seconds: float) -> None:
        size = len(job.trials)
        wanted = int(size * _PIECE_SECONDS / max(seconds, 1e-6))
        now = self._piece.get(job.cell, _FIRST_PIECE)
        # Grow no more than fourfold at a time: the first piece also lowers and loads.
        self._piece[job.cell] = max(1, min(wanted, 4 * now, _LARGEST_PIECE))

    def _replace_overdue(self) -> None:
        now = time.monotonic()
        for reference, call in list(self._calls.items()):
            if now - call.started > self._timeout:
                del self._calls[reference]
                self._lost(call, f"it took longer than {self._timeout:g} s (executor.timeout)")

    def _lost(self, call: _Call, why: str) -> None:
        """A worker is gone: replace it, and try its piece again in smaller pieces, or give up."""
        self._load[call.worker] -= call.weight
        if self._workers[call.worker] is call.actor:  # not replaced yet for another of its pieces
            self._ray.kill(call.actor)  # it may live on, and would keep its CPU from the new one
            self._workers[call.worker] = self._start()
        if len(call.job.trials) == 1 and call.deaths + 1 >= _MAX_DEATHS:
            named = labels(self._cells[call.job.cell], call.job.trials, call.job.keys)
            own = {name: column[0] for name, column in named.items()}
            row = failed_row(self._schema, own, call.job.trials[0].bandwidth, why)
            self._given_up.append(Outcome(pa.Table.from_batches([row]), 0.0))
        else:
            self._queue.appendleft((call.job, call.deaths + 1))
        self._dispatch()


def _split(job: Job, size: int) -> tuple[Job, Job]:
    return (
        Job(job.cell, job.trials[:size], job.keys[:size]),
        Job(job.cell, job.trials[size:], job.keys[size:]),
    )


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
