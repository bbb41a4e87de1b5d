"""How the best of all networks and plans was proven: what closed the cells, and what came near."""

from collections.abc import Callable

import pandas as pd

from dimsweep.sweeper.ledger.record import Proof, Step
from dimsweep.sweeper.ledger.schema import EXPOSED, WAITED
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.report import proof as words
from dimsweep.sweeper.report.naming import beside, in_turn
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import fine_percent, seconds, usd

_SHOWN = 6  # designs, the best one with them
_STEPS = 8
_LITTLE = 0.002  # relative: what differs less is no reason


def tables(report: Report) -> list[Sheet]:
    proof = report.study.proof
    if proof is None or not report.found:
        return []
    if proof.front:
        return [_front(report, proof), _closed(proof)]
    if report.study.is_shared:
        return [_closed(proof), *_steps(proof, report.portfolios[0].show_mean, TIME.gap)]
    objective = report.study.objectives[0]
    steps = _steps(proof, objective.show, objective.gap)
    return [_runners_up(report), *_changes(report, proof), _closed(proof), *steps]


def _front(report: Report, proof: Proof) -> Sheet:
    """What each step of time and cost is: the simulated design there, and what none is below."""
    cells = [min(report.ordered, key=lambda cell: _apart(cell, step)) for step in proof.front]
    rows = [
        (
            name,
            usd(step.cost),
            seconds(step.time),
            seconds(step.bound),
            fine_percent(step.time / step.bound - 1),
        )
        for name, step in zip(in_turn(cells), proof.front, strict=True)
    ]
    columns = ("design", "costs at most", "takes", "none takes less than", "gap")
    return Sheet("The front of time and cost", columns, rows)


def _apart(cell: CellSummary, step: Step) -> float:
    time, cost = cell.best["time_s"] / step.time - 1, cell.best["cost_usd"] / step.cost - 1
    return float(abs(time) + abs(cost))


def _changes(report: Report, proof: Proof) -> list[Sheet]:
    """How far each thing alone may move, and what wins then."""
    if not proof.changes:
        return []
    named, rows = report.ordered[0].cell.coordinates, list[tuple[str, ...]]()
    for change in proof.changes:
        end = words.first_end(change)
        wins = "nothing"
        if end is not None:
            winner = "not known" if end.by is None else beside(end.by, named)
            wins = f"{words.beyond(end)}: {winner}"
        best = f"{words.times(change.down)} to {words.times(change.up)}"
        near = f"{words.times(change.near_down)} to {words.times(change.near_up)}"
        rows.append((change.name, wins, best, near))
    end = proof.rival
    if end is not None and end.by is not None:
        more = f"{fine_percent(max(end.factor - 1, 0.0))} more"
        wins = f"{more}: {beside(end.by, named)}"
        least = end.factor if end.at_least is None else end.at_least
        held = f"up to {fine_percent(max(least - 1, 0.0))} more"
        rows.append(("simulated time, beside that of others", wins, held, ""))
    columns = ("alone", "what wins beyond", "the best at", "within 1% at")
    return [Sheet("What would change the answer", columns, rows, n_names=2)]


def _closed(proof: Proof) -> Sheet:
    rows = [(what, f"{n:,}", fine_percent(n / proof.cells)) for what, n in words.closed(proof)]
    rows += [(f"no cells: {reason}", f"{n:,}", "") for reason, n in proof.refused.items()]
    return Sheet("How the cells were closed", ("", "cells", "of all"), rows)


def _steps(
    proof: Proof, show: Callable[[float], str], gap: Callable[[float, float], float]
) -> list[Sheet]:
    """The proof as it went, thinned out; nothing where it was through before anything stood."""
    if not proof.steps:
        return []
    every = max(1, -(-len(proof.steps) // _STEPS))
    steps = [*proof.steps[::every], *proof.steps[-1:]]
    rows = [
        (
            f"{n:,}",
            show(best),
            show(bound),
            fine_percent(max(gap(best, bound), 0.0)),
        )
        for n, best, bound in dict.fromkeys(steps)
    ]
    columns = ("programs bounded", "best so far", "no design beats", "gap")
    return [Sheet("How the proof went", columns, rows)]


def _runners_up(report: Report) -> Sheet:
    """The best designs, and why each but the first loses."""
    objective = report.study.objectives[0]
    ordered = report.ordered
    first, rows, shown = ordered[0], [], ordered[:_SHOWN]
    for name, cell in zip(in_turn(shown), shown, strict=True):
        lost = objective.gap(objective.of(cell.best), objective.of(first.best))
        cost = cell.best.get("cost_usd")
        rows.append(
            (
                name,
                "the best" if cell is first else why(cell, first),
                objective.show(objective.of(cell.best)),
                "" if cell is first else fine_percent(lost),
                seconds(cell.best["time_s"]),
                "-" if pd.isna(cost) else usd(cost),
            )
        )
    columns = ("design", "why it loses", objective.most, "behind", "time", "cost")
    return Sheet("The best of the simulated designs", columns, rows, n_names=2)


def why(cell: CellSummary, first: CellSummary) -> str:
    """What is worse than of the first design: the time, and where most of that goes; the cost."""
    own, best = cell.best, first.best
    found, slower = [], own["time_s"] / best["time_s"] - 1
    if slower > _LITTLE:
        found.append(f"{fine_percent(slower)} slower, in {_longest(own, best, len(cell.dims))}")
    dearer = own.get("cost_usd", 0) / (best.get("cost_usd", 0) or 1) - 1
    if dearer > _LITTLE:
        found.append(f"costs {fine_percent(dearer)} more")
    return "; ".join(found) or "a near tie"


def _longest(own: pd.Series, best: pd.Series, n_dims: int) -> str:
    """The part of the time that is longer by most: computation, what communication in a dimension
    exposes, or waiting.  Critical paths are not compared: two that are as long may lead through
    different parts of the same program."""
    dims = {f"dimension {d}": EXPOSED.at(d) for d in range(n_dims)}
    if any(pd.isna(row.get(name)) for row in (own, best) for name in dims.values()):
        dims = {"exposed communication": "exposed_s"}
    parts = {"computation": "compute_s", **dims, "waiting": WAITED.name}
    return max(parts, key=lambda part: own[parts[part]] - best[parts[part]])


SECTION = Section(of_study=tables)
