"""Simulate rows of a study again from its record, and compare them bit for bit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.engine import MODEL_VERSION, DimsweepError, Program
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import CellRecord, Provenance, StudyRecord
from dimsweep.sweeper.ledger.rows import COMPLETE, Cell
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.plugins import load_plugins
from dimsweep.sweeper.plugins import plugin_digests as plugin_digests
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.study.content import Content, input_digests
from dimsweep.sweeper.study.provenance import provenance
from dimsweep.sweeper.study.restore import load_config, load_trials

_BATCH_ROWS = 50_000  # rows


@dataclass(frozen=True)
class Reproduced:
    """The comparison of stored rows with rows simulated again."""

    #: number of rows simulated again
    rows: int
    #: number of complete rows of the study
    n_complete: int
    #: columns that differ, by cell and trial
    differ: Mapping[tuple[int, int], list[str]]
    #: the processes that wrote the rows
    recorded: tuple[Provenance, ...]
    #: this process
    current: Provenance


def reproduce(folder: Place, sample: int | None = None, seed: int = 0) -> Reproduced:
    """Simulate complete rows of a study again, and compare every column bit for bit.

    Parameters
    ----------
    folder
        The folder of the study.
    sample
        Number of rows to draw at random; None for all of them.
    seed
        Seed of the draw.

    Raises
    ------
    DimsweepError
        If another version of the model wrote the study, if no row is complete, or if a file that
        the study names has changed.
    """
    stored = Stored(folder)
    study = stored.study
    if study.model != MODEL_VERSION:
        raise DimsweepError(
            f"version {study.model} of the model wrote the rows; this is version {MODEL_VERSION}",
            where=str(folder),
            hint="use the version of dimsweep that study.json names (provenance)",
            code="unsupported",
        )
    complete = pc.sum(pc.equal(stored.table(["state"])["state"], COMPLETE)).as_py() or 0
    if not complete:
        raise DimsweepError(
            "no row of the study is complete",
            where=str(folder),
            hint="dimsweep sweep simulates it, and dimsweep report lists the failures",
            code="missing",
        )
    chosen = np.arange(complete)
    if sample is not None and sample < complete:
        chosen = np.sort(np.random.default_rng(seed).choice(complete, sample, replace=False))
    differ: dict[tuple[int, int], list[str]] = {}
    for rows in _iterate_rows(stored, chosen):
        for record in (*study.cells, *study.baselines):
            own = rows.filter(pc.equal(rows["cell"], record.cell))
            if record.key is not None:  # not the row of a baseline that the study had before
                own = own.filter(pc.equal(own["key"], record.key))
            if len(own):
                differ |= _compare(own, _simulate_rows(study, record, own, folder))
    return Reproduced(len(chosen), complete, differ, study.provenance, provenance())


def _iterate_rows(stored: Stored, chosen: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Yield the complete rows at the positions ``chosen``, by cell and trial, in batches."""
    start = 0
    for every in stored.in_order(_BATCH_ROWS):
        rows = every.filter(pc.equal(every["state"], COMPLETE))
        low, high = np.searchsorted(chosen, (start, start + len(rows)))
        if low < high:
            yield rows.take(pa.array(chosen[low:high] - start))
        start += len(rows)


def _simulate_rows(
    study: StudyRecord, record: CellRecord, rows: pa.Table, folder: Place
) -> pa.Table:
    """Simulate the rows of a cell again; return them in the order of ``rows``."""
    load_plugins(names := study.config.get("plugins", ()))
    _check_files(study, plugin_digests(names), folder)
    config = load_config(study, record)
    _check_files(study, input_digests(config), folder)
    content, trials = Content(config), load_trials(config, rows)
    keys = content.keys(trials)
    if keys != rows["key"].to_pylist():
        problem = "its rows do not match its configuration"
        if content.text != record.content:
            problem = "a file that it names has changed"
        raise DimsweepError(
            f"the study cannot be simulated again: {problem}", where=str(folder), code="mismatch"
        )
    evaluator = Evaluator([Cell(record.cell, config, record.coordinates)], rows.schema)
    found = evaluator.evaluate(Job(record.cell, trials, keys)).rows
    place = {key: i for i, key in enumerate(found["key"].to_pylist())}
    return found.take([place[key] for key in keys])


def _check_files(study: StudyRecord, now: Mapping[str, str], folder: Place) -> None:
    """Raise :class:`DimsweepError` if a file that the study names has changed."""
    then = study.config.get("files", {})
    if changed := [name for name in now if name in then and then[name] != now[name]]:
        problem = f"the study cannot be simulated again: {', '.join(changed)} has changed"
        raise DimsweepError(problem, where=str(folder), code="mismatch")


def build_row_program(
    study: StudyRecord, record: CellRecord, rows: pa.Table
) -> tuple[Config, Program]:
    """Return the configuration and the program of a row's trial.

    Raises :class:`DimsweepError` or :class:`OSError` if a file of the configuration is missing.
    """
    config = load_config(study, record)
    (trial,) = load_trials(config, rows)
    config = config.with_values(trial.parameters.keys_only)
    program = build_program(config)
    bandwidth = trial.bandwidth
    return config, program if bandwidth is None else program.rebind(bandwidth=bandwidth)


def _compare(stored: pa.Table, found: pa.Table) -> dict[tuple[int, int], list[str]]:
    """Return the names of the columns that differ, by cell and trial."""
    names = list(zip(stored["cell"].to_pylist(), stored["trial"].to_pylist(), strict=True))
    differ: dict[tuple[int, int], list[str]] = {}
    for field in stored.schema:
        unlike = _comparable_bits(stored[field.name]) != _comparable_bits(found[field.name])
        for row in np.flatnonzero(unlike).tolist():
            differ.setdefault(names[row], []).append(field.name)
    return differ


def _comparable_bits(column: pa.ChunkedArray) -> np.ndarray:
    """Return values as bits, in which a NaN equals itself."""
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        bits = column.combine_chunks().fill_null(0).to_numpy(zero_copy_only=False).view(np.int64)
        values = [None if value is None else bit for value, bit in zip(values, bits, strict=True)]
    found = np.empty(len(column), dtype=object)
    found[:] = values
    return found
