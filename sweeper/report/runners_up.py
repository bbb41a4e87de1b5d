"""The runners-up of a study: up to three designs next to the best, for the screen and the page."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.report import Report, SharedDesign, describe_loss
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.table import Table

_MOST = 3


@dataclass(frozen=True)
class RunnerUp:
    """A design other than the answer: its full name, and its differences from the answer."""

    name: str
    difference: str
    #: its cell and row; None if it stands for several scenarios or workloads
    cell: CellSummary | None = None
    row: pd.Series | None = None


def find_runners_up(report: Report) -> list[RunnerUp]:
    """Return up to three runners-up, the best first; of a frontier its ends and its middle."""
    return list(islice(_runners_up(report), _MOST))


def tabulate_runners_up(report: Report) -> Table | None:
    """Return a table of the answer and its runners-up; None if nothing else was simulated."""
    if not (others := find_runners_up(report)):
        return None
    rows = [_make_row(each) for each in (_answer(report), *others)]
    heads = ("design", "against the answer", "time", "cost")
    n = max(d for d in range(1, len(heads) + 1) if any(row[d - 1] for row in rows))
    return Table("Runners-up", heads[:n], [row[:n] for row in rows], n_names=2)


def _make_row(design: RunnerUp) -> tuple[str, ...]:
    if design.cell is None or design.row is None:
        return design.name, design.difference, "", ""
    cost = words.usd(design.row["cost_usd"]) if design.cell.priced else ""
    return design.name, design.difference, words.seconds(design.row["time_s"]), cost


def _answer(report: Report) -> RunnerUp:
    """Return the answer as an entry of the list of runners-up."""
    decisions, (cell, row) = report.decisions, report.chosen[0]
    if report.one_for_all is not None:
        return RunnerUp(f"one {report.one_for_all.noun} for all", "the answer")
    if len(decisions.scenarios) > 1:
        return RunnerUp(decisions.name(decisions.ranking[0]), "the answer")
    chosen = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    return RunnerUp(
        chosen or _name_trial(cell, row) or describe.best_name(cell), "the answer", cell, row
    )


def _runners_up(report: Report) -> Iterator[RunnerUp]:
    decisions, (cell, row) = report.decisions, report.chosen[0]
    if report.one_for_all is not None:
        yield from _of_workloads(report.one_for_all)
    elif len(cell.objectives) > 1 and len(decisions.scenarios) == 1:
        yield from _of_front(cell, row)
    elif len(decisions.decisions) > 1:
        for d in decisions.ranking[1:]:
            if not decisions.worst_regrets[d] < math.inf:
                yield RunnerUp(decisions.name(d), "does not run in every scenario")
            elif len(decisions.scenarios) > 1:
                yield RunnerUp(decisions.name(d), f"loses {describe_loss(decisions, d)}")
            else:
                other = decisions.cells[d, 0]
                yield _compare(decisions.name(d), other, other.named, cell, row)
    else:
        yield from _of_values(cell, row)
        if (reference := cell.reference) is not None:
            name = f"{reference.name}, {_format_split(cell, reference.row)}"
            yield _compare(name, cell, reference.row, cell, row)


def _compare(
    name: str, other: CellSummary, its: pd.Series, cell: CellSummary, row: pd.Series
) -> RunnerUp:
    """Return a row of the cell ``other`` as a runner-up, with its relative loss against the answer.

    ``row`` is the answer's row in ``cell``, and ``its`` the other row.
    """
    own, value = cell.objective.value(row), cell.objective.value(its)
    share = cell.objective.gap(value, own) if own else 0.0
    return RunnerUp(name, words.format_behind(share), other, its)


def _of_values(cell: CellSummary, row: pd.Series) -> Iterator[RunnerUp]:
    """Yield the next-best values of the searched keys, each with its best split."""
    if not (keys := list(cell.parameters)):
        return
    best = pd.DataFrame()
    for rows in cell.trials.complete(["trial", *cell.trials.values, *keys]):
        best = pd.concat([best, rows[(rows[keys] != row[keys]).any(axis=1).to_numpy()]])
        losses = cell.objective.loss(best[cell.objective.column])
        best = best.loc[losses.sort_values(kind="stable").index].drop_duplicates(keys).head(_MOST)
    for _, other in cell.trials.rows.take(best.index.to_numpy(np.int64)).iterrows():
        yield _compare(_name_trial(cell, other), cell, other, cell, row)


def _of_front(cell: CellSummary, row: pd.Series) -> Iterator[RunnerUp]:
    """Yield the ends and the middle of the frontier of two objectives."""
    n = len(cell.front)
    for i in dict.fromkeys((0, n // 2, n - 1)):
        other = cell.front.iloc[i]
        if other.name != row.name:
            yield RunnerUp(
                _name_point(cell, other), _describe_changes(cell, other, row), cell, other
            )


def _name_point(cell: CellSummary, row: pd.Series) -> str:
    """Return the name of a design of a frontier; in a study of several cells it has the cell."""
    if cell.cell.coordinates:
        return naming.label(cell)
    return _name_trial(cell, row) or _format_split(cell, row)


def _describe_changes(cell: CellSummary, other: pd.Series, row: pd.Series) -> str:
    """Return how the objectives of a row differ from the answer's: "time +3%, cost x2.1"."""
    return ", ".join(
        f"{objective.name.replace('_', ' ')} {_format_change(objective.value(other), own)}"
        for objective in cell.objectives
        if (own := objective.value(row)) and objective.value(other) != own
    )


def _format_change(value: float, reference: float) -> str:
    factor = value / reference
    return f"x{factor:.3g}" if factor >= 2 else f"{100 * (factor - 1):+.2g}%"


def _of_workloads(one: SharedDesign) -> Iterator[RunnerUp]:
    """Yield the best network of each single workload, with the worst loss of any workload on it."""
    matrix = one.regret_matrix()
    worst = matrix.regrets.max(axis=1)
    for i in np.argsort(worst, kind="stable").tolist():
        if (name := matrix.down[i]) != "all of them":
            made_for = f"{one.noun} made for {name.removesuffix(' alone')}"
            name = name if name == "equal split" else made_for
            yield RunnerUp(f"the {name}", f"worst loss {words.loss(float(worst[i]))}")


def _name_trial(cell: CellSummary, row: pd.Series) -> str:
    split = _format_split(cell, row) if cell.split_varies else ""
    return ", ".join(filter(None, (naming.searched(cell, row), split)))


def _format_split(cell: CellSummary, row: pd.Series) -> str:
    return f"{', '.join(map(words.gbps, cell.split(row)))} GB/s"
