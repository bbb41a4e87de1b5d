"""Evaluate trials in a worker: lower each configuration once, then simulate in batches."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.engine import (
    FINISHED,
    Cluster,
    Collective,
    CollectiveKind,
    DimsweepError,
    Fidelity,
    GraphBuilder,
    Group,
    InfeasibleError,
    Program,
    Runner,
    Topology,
    Workload,
    account,
    describe_defect,
    outcome_error,
    simulate,
)
from dimsweep.engine.kernels.messages import MessageRun
from dimsweep.engine.kernels.network import MessageRunner
from dimsweep.engine.reliability import Outage, compute_mean_speed
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.rows import (
    FAILED,
    INFEASIBLE,
    JOB_SLOWDOWN,
    JOB_TIME,
    LOST,
    OUTAGE_SLOWDOWN,
    PACKET_COLUMNS,
    Cell,
    complete_rows,
    failed_row,
    labels,
)
from dimsweep.sweeper.simulation.outages import Outages
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from dimsweep.sweeper.simulation.simulate import AloneRunners, JobTime
from dimsweep.sweeper.space.trials import Integers, Setting, Trial, Trials

_PROGRAMS_KEPT, _CONFIGS_KEPT = 64, 8


@dataclass(frozen=True)
class Job:
    """Trials of one cell that are sent to a worker."""

    cell: int
    trials: Trials
    #: keys of the rows, one per trial
    keys: Sequence[str]
    #: the cell, if the workers do not have it, as in a large grid
    cell_config: Cell | None = None

    def slice(self, start: int, stop: int | None) -> Self:
        """Return a job with the trials from ``start`` to ``stop``."""
        return replace(self, trials=self.trials[start:stop], keys=self.keys[start:stop])

    def select(self, rows: Integers) -> Self:
        """Return a job with the trials at the positions ``rows``."""
        if len(rows) == len(self.keys):
            return self
        return replace(
            self, trials=self.trials.take(rows), keys=[self.keys[i] for i in rows.tolist()]
        )

    def isolate(self, keys: Collection[str]) -> list[Self]:
        """Return a separate job for each trial whose key is among ``keys``."""
        return [self.slice(i, i + 1) for i, key in enumerate(self.keys) if key in keys]


@dataclass(frozen=True)
class Outcome:
    """The rows that simulating a job gave, and the trials that the environment failed."""

    #: rows in any order
    rows: pa.Table
    #: CPU seconds in the engine
    seconds: float
    #: keys of the trials that the environment failed, which may be tried again
    lost: frozenset[str] = frozenset()

    def without_lost(self) -> Self:
        """Return the outcome without the trials that are to be tried again."""
        kept = pc.not_equal(self.rows["state"], LOST)
        return replace(self, rows=self.rows.filter(kept), lost=frozenset())

    def __reduce__(self) -> tuple[Any, ...]:
        # As one buffer, which arrives without a copy: Ray's way with a table takes milliseconds.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as stream:
            stream.write_table(self.rows)
        return _unpack_outcome, (sink.getvalue(), self.seconds, self.lost)


def _unpack_outcome(rows: pa.Buffer, seconds: float, lost: frozenset[str]) -> Outcome:
    return Outcome(pa.ipc.open_stream(rows).read_all(), seconds, lost)


def _smallest_inputs() -> tuple[Workload, Cluster]:
    """Return the smallest workload and cluster that send a message."""
    graph = GraphBuilder()
    graph.add("all", Collective(CollectiveKind.ALL_REDUCE, 2.0, "all"))
    workload = Workload((graph.build(),), {"all": Group((2,), (1,))})
    return workload, Cluster(Topology.build("Ring(2)", bandwidth=[1e9], latency=[0]))


class Evaluator:
    """Simulates the trials of a study's cells in this process.

    A trial that fails by its own inputs becomes a failed or infeasible row. A trial that fails
    because of the environment (memory, a file) becomes a lost row.
    """

    def __init__(self, cells: Sequence[Cell], schema: pa.Schema) -> None:
        self._cells = {cell.number: cell for cell in cells}
        self._schema = schema
        self._runner = lru_cache(maxsize=_PROGRAMS_KEPT)(self._prepare)
        self._config = lru_cache(maxsize=_CONFIGS_KEPT)(self._cell_config)

    def warm(self) -> None:
        """Load and compile all code that simulating a trial needs."""
        first = min(self._cells)
        fidelity = self._fidelity(first, Setting())
        if fidelity is Fidelity.PHASE:
            self.evaluate(Job(first, Trials.from_list([Trial(0, "known", None)]), [""]))
        else:  # a trial may be slow
            simulate(*_smallest_inputs(), fidelity=fidelity)

    def evaluate(self, job: Job) -> Outcome:
        """Simulate all trials of ``job``, with one compiled call per program."""
        batches, seconds = list[pa.RecordBatch](), 0.0
        if job.cell_config is not None and job.cell not in self._cells:
            # Cells of a large grid arrive one after another: programs of earlier cells only take
            # memory, up to a tenth of a gigabyte each.
            self._runner.cache_clear()
            self._config.cache_clear()
        if job.cell_config is not None:
            self._cells = {job.cell: job.cell_config}
        for setting, indices in self._iterate_calls(job):
            trials = job.trials.take(indices)
            named = labels(self._cells[job.cell], trials, [job.keys[i] for i in indices])
            done, spent = self._simulate(job.cell, setting, trials, named)
            seconds += spent
            batches += done
        return Outcome(pa.Table.from_batches(batches), seconds, frozenset(_lost_keys(batches)))

    def _iterate_calls(self, job: Job) -> Iterator[tuple[Setting, list[int]]]:
        """Yield settings with the trials of one call: many for the phase kernel, else one each."""
        together: dict[Setting, list[int]] = {}
        for i, number in enumerate(job.trials.setting.tolist()):
            together.setdefault(job.trials.settings[number], []).append(i)
        for setting, indices in together.items():
            is_alone = bool(self._cells[job.cell].config.reliability.outages)
            if is_alone or self._fidelity(job.cell, setting) is not Fidelity.PHASE:
                yield from ((setting, [i]) for i in indices)
            else:
                yield setting, indices

    def _fidelity(self, cell: int, setting: Setting) -> Fidelity:
        return Fidelity(setting.get("fidelity", self._cells[cell].config.fidelity))

    def _simulate(
        self, cell: int, setting: Setting, trials: Trials, named: dict[str, Sequence[Any]]
    ) -> tuple[list[pa.RecordBatch], float]:
        try:
            prepared, program = self._rebind(cell, setting.keys_only)
        except Exception as error:  # whatever it is, the sweep must continue
            return [self._failed_row(i, trials, named, error) for i in range(len(trials))], 0.0
        try:
            return self._run(prepared, program, trials, named)
        except Exception as error:
            if len(trials) == 1:
                return [self._failed_row(0, trials, named, error)], 0.0
        rows, seconds = list[pa.RecordBatch](), 0.0
        for i in range(len(trials)):  # one of them must not fail the others
            own = {name: column[i : i + 1] for name, column in named.items()}
            done, spent = self._simulate(cell, setting, trials[i : i + 1], own)
            rows, seconds = rows + done, seconds + spent
        return rows, seconds

    def _run(
        self,
        prepared: "_Prepared",
        program: Program,
        trials: Trials,
        named: dict[str, Sequence[Any]],
    ) -> tuple[list[pa.RecordBatch], float]:
        bandwidth = _bandwidths(program, trials)
        start = time.thread_time()
        network = None
        if isinstance(prepared.runner, Runner):
            measures = prepared.runner.batch(bandwidth, program.latency)
        else:
            (trial,) = bandwidth
            run = prepared.runner.run(trial, fold=prepared.alone.fold)
            jobs = prepared.alone.times(run.measures.end[0], trial)
            measures, named = run.measures, named | _packet_columns(run) | _job_columns(jobs)
            network = run.network
        outages = prepared.outages.simulated(int(measures.time[0]), bandwidth[0])
        named = named | _outage_columns(outages)
        breakdown = account(program, bandwidth, measures, network, compute_mean_speed(outages))
        seconds = time.thread_time() - start
        rows = complete_rows(self._schema, named, bandwidth, breakdown, program.names.tally)
        finished = measures.outcome == FINISHED
        if finished.all():
            return [rows], seconds
        failed = [
            self._failed_row(i, trials, named, outcome_error(int(measures.outcome[i])))
            for i in np.flatnonzero(~finished).tolist()
        ]
        return [rows.filter(pa.array(finished)), *failed], seconds

    def _failed_row(
        self, i: int, trials: Trials, named: dict[str, Sequence[Any]], error: Exception
    ) -> pa.RecordBatch:
        own = {name: column[i] for name, column in named.items()}
        return failed_row(
            self._schema, own, trials[i].bandwidth, _describe_error(error), _failure_state(error)
        )

    def _rebind(self, cell: int, setting: Setting) -> tuple["_Prepared", Program]:
        """Return the prepared runners and the program for a setting of a cell.

        Settings that differ only in bandwidths, latencies or prices share a lowered program.
        """
        config = self._config(cell, setting)
        point = [name for name in setting if name.startswith(_rebindable_prefixes(config))]
        if not point or config.by_message or config.reliability.outages:
            prepared = self._runner(cell, setting)
            return prepared, prepared.runner.program
        cluster = build_cluster(config)
        dims = cluster.topology.dims
        prepared = self._runner(cell, setting.without(*point))
        return prepared, prepared.runner.program.rebind(
            bandwidth=[dim.bandwidth for dim in dims],
            latency=[dim.latency for dim in dims],
            prices=cluster.prices,
        )

    def _prepare(self, cell: int, setting: Setting) -> "_Prepared":
        config = self._config(cell, setting)
        program = build_program(config)
        runner = MessageRunner(program, config.fidelity) if config.by_message else Runner(program)
        return _Prepared(
            runner, AloneRunners.from_config(config), Outages.from_config(config, program)
        )

    def _cell_config(self, cell: int, setting: Setting) -> Config:
        return self._cells[cell].config.with_values(setting)


class _Prepared(NamedTuple):
    """The runner of a setting's program, the runners of single jobs, and the outages."""

    runner: Runner | MessageRunner
    alone: AloneRunners
    outages: Outages


def _lost_keys(batches: Sequence[pa.RecordBatch]) -> Iterator[str]:
    """Yield the keys of trials in ``batches`` that the environment failed.

    A failed trial is a batch of one row.
    """
    for batch in batches:
        if len(batch) == 1 and batch["state"][0].as_py() == LOST:
            yield batch["key"][0].as_py()


def _describe_error(error: Exception) -> str:
    if isinstance(error, DimsweepError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{error!r}: no memory was left, or executor.memory allows no more"
    if isinstance(error, OSError):
        return f"{error!r}; the trial is not at fault"
    return f"a defect of dimsweep or of a library, not of the trial: {describe_defect(error)}"


def _failure_state(error: BaseException) -> str:
    if isinstance(error, InfeasibleError):
        return INFEASIBLE
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:  # an error that was raised anew has a circle
        if isinstance(cause, (MemoryError, OSError)):  # it may go well elsewhere, or later
            return LOST
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return FAILED


def _rebindable_prefixes(config: Config) -> tuple[str, ...]:
    """Return the prefixes of keys whose values can change in a lowered program.

    Bandwidths are not among them if collectives were measured at certain bandwidths.
    """
    # Parts that are bought as a whole also draw power.
    of_lists = () if config.cost.parts else ("cost.tiers", "cost.npu")
    prices = (*of_lists, "topology.latency")
    if config.collective.measured is not None and config.collective.measured_bandwidth is None:
        return prices
    return (*prices, "topology.bandwidth")


def _bandwidths(program: Program, trials: Trials) -> np.ndarray:
    own = program.bandwidth
    if trials.bandwidth is None:
        return np.tile(own, (len(trials), 1))
    if trials.bandwidth.shape[1] != len(own):
        raise DimsweepError(
            f"a split over {trials.bandwidth.shape[1]} dimensions, but the topology has {len(own)}",
            where="space.bandwidth",
            code="mismatch",
        )
    return trials.bandwidth


def _job_columns(jobs: Mapping[str, JobTime]) -> dict[str, Sequence[Any]]:
    """Return the columns with the times and slowdowns of jobs; {} for a single workload."""
    if not jobs:
        return {}
    found = {
        JOB_TIME: [(name, job.time) for name, job in jobs.items()],
        JOB_SLOWDOWN: [(name, job.slowdown) for name, job in jobs.items()],
    }
    return {column.name: [value] for column, value in found.items()}


def _outage_columns(outages: Sequence[Outage]) -> dict[str, Sequence[Any]]:
    """Return the column with the slowdown while a part of the network is down."""
    found = [(outage.what, outage.slowdown) for outage in outages]
    return {OUTAGE_SLOWDOWN.name: [found]} if found else {}


def _packet_columns(run: MessageRun) -> dict[str, Sequence[Any]]:
    """Return the columns with counts of packets; {} if the run simulates no packets."""
    packets = None if run.traffic is None else run.traffic.packets
    if packets is None:
        return {}
    found = packets.dropped, int(packets.timeouts.sum())
    return {column.name: [value] for column, value in zip(PACKET_COLUMNS, found, strict=True)}
