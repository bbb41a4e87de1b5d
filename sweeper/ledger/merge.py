"""Which rows of several files count, and their order."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.sweeper.ledger import keys
from dimsweep.sweeper.ledger.rows import BASELINE, BESIDE, FAILED, LOST, WHAT_IF, is_asked


def in_order(table: pa.Table) -> pa.Table:
    """The rows by cell and trial; only those are moved that are not in their place."""
    if not len(table):
        return table
    order = np.lexsort((table["trial"].to_numpy(), table["cell"].to_numpy()))
    moved = order != np.arange(len(order))
    ends = [0, *(np.flatnonzero(np.diff(moved)) + 1).tolist(), len(order)]
    return pa.concat_tables(
        table.take(pa.array(order[start:stop]))
        if moved[start]
        else table.slice(start, stop - start)
        for start, stop in itertools.pairwise(ends)
        if start < stop
    )


def each_once(table: pa.Table) -> pa.Table:
    """The rows of files in their order, each trial once.

    A key may occur twice where a log has become a part, where a lost lock let two sweeps evaluate
    the same trial, or where a trial was tried again: what was simulated counts.  The number of a
    trial occurs twice where a trial before it was tried again, and the search, which knew more
    then, proposed another one: the later counts.
    """
    table = each_key_once(table)
    return _first(table, numbers(table)[:, None], _latest)


def numbers(table: pa.Table, first: int = 0) -> NDArray[np.uint64]:
    """What tells the trials apart, if their keys do, from the columns ``key``, ``cell``, ``trial``
    and ``origin``; ``first`` is the place of the table's first row among all rows."""
    kind = pc.index_in(table["origin"], pa.array(BESIDE)).fill_null(len(BESIDE)).to_numpy()
    cell, trial = (table[name].to_numpy().astype(np.uint64) for name in ("cell", "trial"))
    # Each baseline that a study has had is a trial of its own: which one it has now, its key says.
    baselines = np.flatnonzero(kind == BESIDE.index(BASELINE))
    trial[baselines] = first + baselines
    # The bits of a cell, of a kind and of a trial.
    number = cell << np.uint64(35) | kind.astype(np.uint64) << np.uint64(32) | trial
    # A what-if is a change of a design: it stays true when the search has found another design.
    # Nor does the search know of what somebody asked for.
    own = np.flatnonzero((kind == BESIDE.index(WHAT_IF)) | is_asked(table["origin"]))
    if len(own):
        number[own] = identity(table.take(pa.array(own)))[:, 0] | np.uint64(1 << 63)
    return number


def repeated(pieces: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """The values that are there more than once, in order."""
    values = np.concatenate([np.empty(0, np.uint64), *pieces])
    values.sort()
    return np.unique(values[1:][values[1:] == values[:-1]])


def each_key_once(table: pa.Table) -> pa.Table:
    """The rows with the columns ``key``, ``cell`` and ``state``, each key of a cell once: what was
    simulated before what failed, and this before what was lost."""
    return _first(table, identity(table), _by_state)


def identity(table: pa.Table) -> keys.Halves:
    """What tells the rows apart, from their columns ``key`` and ``cell``."""
    return keys.in_cells(keys.from_column(table["key"]), table["cell"].to_numpy())


def _by_state(table: pa.Table) -> NDArray[np.integer]:
    failed, lost = (pc.equal(table["state"], state).to_numpy() for state in (FAILED, LOST))
    return np.asarray(failed + 2 * lost)


def _latest(table: pa.Table) -> NDArray[np.integer]:
    return np.arange(len(table), 0, -1)


def _first(
    table: pa.Table, identity: keys.Halves, order: Callable[[pa.Table], NDArray[np.integer]]
) -> pa.Table:
    """The first row, by ``order`` and then by place, of those whose ``identity`` (N, C) is equal;
    in the order of the table."""
    if keys.differ(identity):
        return table
    by = np.lexsort((order(table), *identity.T))
    first = np.append(True, (identity[by[1:]] != identity[by[:-1]]).any(axis=1))
    return table.take(pa.array(np.sort(by[first])))
