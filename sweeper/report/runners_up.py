"""The runners-up: two or three other designs next to the answer, for the page and the terminal."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.decisions import LEVEL
from dimsweep.sweeper.report.report import Report, SharedDesign, describe_loss
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.table import Table

_TITLE = "Runners-up"
_MOST = 3


def tabulate_runners_up(report: Report) -> Table | None:
    """Return a row for the answer and for each of up to three runners-up, named in full; None if
    nothing else was simulated."""
    decisions = report.decisions
    if report.one_for_all is not None:
        return _compare_networks(report.one_for_all)
    if len(decisions.scenarios) > 1:
        answer, *others = decisions.ranking[: _MOST + 1]
        if not others:
            return None
        found = [(decisions.name(d), _describe_losses(report, d)) for d in (answer, *others)]
        head = f"loss in {decisions.count}"
        return Table(_TITLE, ("design", head), [tuple(each) for each in found])
    ((cell, row),) = report.chosen
    rows = [_make_row(_name_answer(report, cell, row), "the answer", cell, row)]
    if len(decisions.decisions) > 1:
        for d in decisions.order(0)[1 : _MOST + 1]:
            other, share = decisions.cells[d, 0], float(decisions.regrets[d, 0])
            rows.append(_make_row(decisions.name(d), _describe_share(share), other, other.named))
    elif len(cell.objectives) > 1:
        rows += _compare_front(cell, row)
    else:
        rows += _compare_trials(cell, row)
    if len(rows) == 1:
        return None
    n = 4 if any(each[3] for each in rows) else 3
    head = f"against the answer{words.measured_in(cell.objective)}"
    heads = ("design", head if len(cell.objectives) == 1 else "against the answer", "time", "cost")
    return Table(_TITLE, heads[:n], [each[:n] for each in rows], n_names=2)


def _make_row(name: str, difference: str, cell: CellSummary, row: pd.Series) -> tuple[str, ...]:
    cost = words.usd(row["cost_usd"]) if cell.priced else ""
    return name, difference, words.seconds(row["time_s"]), cost


def _name_answer(report: Report, cell: CellSummary, row: pd.Series) -> str:
    decisions = report.decisions
    chosen = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    return chosen or _name_trial(cell, row) or describe.best_name(cell)


def _name_trial(cell: CellSummary, row: pd.Series) -> str:
    split = ""
    if cell.split_varies:
        split = f"{', '.join(map(words.gbps, cell.split(row)))} GB/s"
    return ", ".join(filter(None, (naming.searched(cell, row), split)))


def _describe_share(share: float) -> str:
    return f"{words.loss(share)} worse" if share >= LEVEL else "as good"


def _describe_losses(report: Report, decision: int) -> str:
    if not np.isfinite(report.decisions.worst[decision]):
        return "does not run in all"
    return describe_loss(report.decisions, decision)


def _compare_networks(one: SharedDesign) -> Table:
    """Return the worst loss on the shared design, which is first, and on the best of the others."""
    matrix = one.regret_matrix()
    worst = np.nanmax(matrix.regrets, axis=1)
    order = sorted(range(len(worst)), key=lambda i: float(worst[i]))[: _MOST + 1]
    rows = [(matrix.down[i], words.loss(float(worst[i]))) for i in order]
    return Table(_TITLE, (matrix.titles[1], "worst loss of a workload"), rows)


def _compare_front(cell: CellSummary, row: pd.Series) -> Iterator[tuple[str, ...]]:
    """Yield the ends of the front of two objectives, and its middle."""
    front = cell.front
    for place in dict.fromkeys((0, len(front) // 2, len(front) - 1)):
        other = front.iloc[place]
        changes = [
            f"{objective.name.replace('_', ' ')} {_format_change(objective.value(other), own)}"
            for objective in cell.objectives
            if (own := objective.value(row)) and objective.value(other) != own
        ]
        if changes:
            yield _make_row(_name_trial(cell, other), ", ".join(changes), cell, other)


def _format_change(value: float, reference: float) -> str:
    factor = value / reference
    return f"x{factor:.3g}" if factor >= 2 else f"{100 * (factor - 1):+.2g}%"


def _compare_trials(cell: CellSummary, row: pd.Series) -> Iterator[tuple[str, ...]]:
    """Yield the next values of the searched keys, and the reference."""
    others = [("", cell.runner_up)]
    if cell.reference is not None:
        others.append((cell.reference.name, cell.reference.row))
    for name, other in others:
        if other is None or other["trial"] == row["trial"]:
            continue
        ours, its = (cell.objective.loss(cell.objective.value(each)) for each in (row, other))
        share = its / ours - 1 if ours else 0.0
        text = ": ".join(filter(None, (name.removeprefix("the "), _name_trial(cell, other))))
        yield _make_row(text, _describe_share(share), cell, other)
