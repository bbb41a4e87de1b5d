"""How near the best of all networks and plans the answer is, and what would change it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from dimsweep.sweeper.ledger.record import LEFT_OUT, Change, End, Proof, Rival, Step, StudyRecord
from dimsweep.sweeper.ledger.schema import EXPOSED, WAITED
from dimsweep.sweeper.objective import TIME, Objective
from dimsweep.sweeper.report.naming import beside, in_turn
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.table import Table
from dimsweep.sweeper.report.words import fine_percent, seconds, usd
from dimsweep.sweeper.study.ranking import NEAR
from dimsweep.sweeper.terminal import plural

_NOTHING = 1e-9  # a relative gap that is rounding


def sentence(study: StudyRecord) -> str:
    """The proof of a study; empty for one that has none.  Without a full stop."""
    proof = study.proof
    if proof is None or proof.best is None or proof.bound is None:
        return ""
    if proof.front:
        gap = max(step.time / step.bound - 1 for step in proof.front)
        near = "" if gap < _NOTHING else f" by more than {fine_percent(gap)}"
        steps = plural(len(proof.front), "step")
        what = f"No design is faster{near} at the cost of any of {steps} of the front"
        return f"{what}, of {proof.cells:,} networks x plans: {_effort(proof)}"
    gap, of = study.objectives[0].gap(proof.best, proof.bound), ""
    if study.is_shared:
        gap = proof.best / proof.bound - 1
        of = f" of {plural(len(study.portfolios[0].share), 'workload')}"
    how = "The best" if gap < _NOTHING else f"Within {fine_percent(gap)} of the best"
    return f"{how} of all {proof.cells:,} networks x plans{of}: {_effort(proof)}"


def _effort(proof: Proof) -> str:
    were = "was" if proof.simulated == 1 else "were"
    more = sum(proof.excluded[2:])
    bounded = f"{more:,} more bounded with a program, " if more else ""
    left_out = sum(n for why, n in proof.refused.items() if why == LEFT_OUT)
    without = f"{left_out:,} left out for their messages, " if left_out else ""
    return f"{proof.simulated:,} {were} simulated, {bounded}{without}the rest excluded by formula"


def trade(study: StudyRecord) -> str:
    """What a proven front goes from and to; empty without one.  Without a full stop."""
    if study.proof is None or not study.proof.front:
        return ""
    first, last = study.proof.front[0], study.proof.front[-1]
    ends = (f"{seconds(each.time)} at {usd(each.cost)}" for each in (first, last))
    return f"the front goes from {' to '.join(ends)} in {plural(len(study.proof.front), 'step')}"


def ties(objective: Objective, ordered: Sequence[CellSummary]) -> str:
    """How many of the simulated designs, the best one first, are as good as that one in practice,
    and whether the model could tell; empty if none is.  Without a full stop."""
    first, *others = ordered
    best = objective.of(first.best)
    near = [c for c in others if objective.gap(objective.of(c.best), best) <= NEAR]
    if not near:
        return ""
    sure = first.surely(first.best, near[0], near[0].best, objective)
    apart = fine_percent(objective.gap(objective.of(near[0].best), best))
    told = "nobody measured how far the model is on such networks"
    if sure is not None:
        told = f"it is {sure:.0%} sure that a measurement would say the same"
    many = f"{plural(len(near), 'other simulated design')} {'is' if len(near) == 1 else 'are'}"
    return f"{many} within 1% of it, the next one {apart} behind: a tie, as {told}"


def rival(proof: Proof, named: Mapping[str, str]) -> str:
    """Who comes next behind the design ``named``, and whether the model could tell; empty where
    nobody looked.  Without a full stop."""
    end = proof.rival
    if end is None:
        return ""
    if end.by is None:
        far = f"no other design is within x{end.factor:.3g} of it"
        return far if end.is_far else f"{_no_nearer(end)}, and no other one was simulated"
    apart = fine_percent(max(end.factor - 1, 0.0))
    which = "next simulated" if end.is_open else "next"
    next_one = f"the {which} design, {beside(end.by, named)}, is {apart} behind"
    if end.is_open:
        next_one += f" ({_no_nearer(end)})"
    if end.sure is None:
        told = "nobody measured how far the model is on such networks"
    elif end.elsewhere:
        told = f"nobody measured such networks; on measured ones it would be {end.sure:.0%} sure"
    else:
        told = f"it is {end.sure:.0%} sure that a measurement would say the same"
    return f"{next_one}: a tie, as {told}" if end.factor - 1 <= NEAR else f"{next_one}; {told}"


def _no_nearer(end: Rival) -> str:
    """Return the least distance that is proven of all other designs."""
    least = end.factor if end.at_least is None else end.at_least
    return f"no other design is less than {fine_percent(max(least - 1, 0.0))} behind"


def moved(proof: Proof, named: Mapping[str, str]) -> tuple[str, str]:
    """What would change the answer ``named``, first what may move least, and what then wins; both
    empty where nothing was looked at.  Without full stops."""
    if not proof.changes:
        return "", ""
    ends = [
        (f"{c.name} {way} {beyond(end)}", end)
        for c in proof.changes
        for way, end in (("below", c.near_down), ("above", c.near_up))
        if not end.is_far
    ]
    ends.sort(key=lambda each: _far(each[1]))
    held = "no design is better by more than 1%"
    if not ends:
        reach = max(c.near_up.factor for c in proof.changes)
        kinds = dict.fromkeys(c.name.split(" ")[0].removesuffix("s") for c in proof.changes)
        *first, last = ("number of layers" if each == "layer" else each for each in kinds)
        what = f"{', '.join(first)} or {last}" if first else last
        return f"{held} at any one {what} times {1 / reach:g} to {reach:g}", ""
    unknown = [where for where, end in ends if end.by is None]
    left = [f"it is not known of {', nor of '.join(unknown)}"] if unknown else []
    known = [(where, end.by) for where, end in ends if end.by is not None]
    if not known:
        return "nothing that is known", left[0]
    (nearest, by), *others = known
    more = [f"or {where}" for where, _ in others]
    return nearest, "; ".join([f"then {beside(by, named)} is better by more than 1%", *more, *left])


def _far(end: End) -> float:
    return max(end.factor, 1 / end.factor)


def times(end: End) -> str:
    """Return the factor up to which the answer holds, as what-ifs have it."""
    return f"x{end.factor:.4g}"


def beyond(end: End) -> str:
    """Return the factor beyond which the answer is known to lose."""
    return f"x{end.factor if end.lost_at is None else end.lost_at:.4g}"


def first_end(change: Change) -> End | None:
    """The end that is nearest at which another design wins; None if none does."""
    ends = [end for end in (change.down, change.up) if not end.is_far]
    return min(ends, key=_far, default=None)


def closed(proof: Proof) -> Iterator[tuple[str, int]]:
    """What became of all cells, level by level."""
    names = ("memory and computation", "loads in closed form", "the bound of the program")
    yield from zip((f"excluded by {name}" for name in names), proof.excluded, strict=True)
    yield "simulated", proof.simulated


def refused(proof: Proof) -> str:
    """What is no cell, and why; empty if nothing is.  Without a full stop."""
    return ", ".join(f"{n:,} {reason}" for reason, n in proof.refused.items())


_SHOWN = 6  # designs, the best one with them
_STEPS = 8
_LITTLE = 0.002  # relative: what differs less is no reason


def tabulate(
    study: StudyRecord, ordered: Sequence[CellSummary], show_mean: Callable[[float], str] | None
) -> list[Table]:
    """Return the tables of a proof of the cells ``ordered``, the best one first; of a portfolio
    with ``show_mean``, which formats its measure."""
    proof, objective = study.proof, study.objectives[0]
    if proof is None or not ordered:
        return []
    if proof.front:
        return [_front(ordered, proof), _closed(proof)]
    if show_mean is not None:
        return [_closed(proof), *_steps(proof, show_mean, TIME.gap)]
    steps = _steps(proof, objective.show, objective.gap)
    return [_runners_up(objective, ordered), *_changes(ordered, proof), _closed(proof), *steps]


def _front(ordered: Sequence[CellSummary], proof: Proof) -> Table:
    """What each step of time and cost is: the simulated design there, and what none is below."""
    cells = [min(ordered, key=lambda cell: _apart(cell, step)) for step in proof.front]
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
    return Table("The front of time and cost", columns, rows)


def _apart(cell: CellSummary, step: Step) -> float:
    time, cost = cell.best["time_s"] / step.time - 1, cell.best["cost_usd"] / step.cost - 1
    return float(abs(time) + abs(cost))


def _changes(ordered: Sequence[CellSummary], proof: Proof) -> list[Table]:
    """How far each thing alone may move, and what wins then."""
    if not proof.changes:
        return []
    named, rows = ordered[0].cell.coordinates, list[tuple[str, ...]]()
    for change in proof.changes:
        end = first_end(change)
        wins = "nothing"
        if end is not None:
            winner = "not known" if end.by is None else beside(end.by, named)
            wins = f"{beyond(end)}: {winner}"
        best = f"{times(change.down)} to {times(change.up)}"
        near = f"{times(change.near_down)} to {times(change.near_up)}"
        rows.append((change.name, wins, best, near))
    end = proof.rival
    if end is not None and end.by is not None:
        more = f"{fine_percent(max(end.factor - 1, 0.0))} more"
        wins = f"{more}: {beside(end.by, named)}"
        least = end.factor if end.at_least is None else end.at_least
        held = f"up to {fine_percent(max(least - 1, 0.0))} more"
        rows.append(("simulated time, beside that of others", wins, held, ""))
    columns = ("alone", "what wins beyond", "the best at", "within 1% at")
    return [Table("What would change the answer", columns, rows, n_names=2)]


def _closed(proof: Proof) -> Table:
    rows = [(what, f"{n:,}", fine_percent(n / proof.cells)) for what, n in closed(proof)]
    rows += [(f"no cells: {reason}", f"{n:,}", "") for reason, n in proof.refused.items()]
    return Table("How the cells were closed", ("", "cells", "of all"), rows)


def _steps(
    proof: Proof, show: Callable[[float], str], gap: Callable[[float, float], float]
) -> list[Table]:
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
    return [Table("How the proof went", columns, rows)]


def _runners_up(objective: Objective, ordered: Sequence[CellSummary]) -> Table:
    """The best designs, and why each but the first loses."""
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
    return Table("The best of the simulated designs", columns, rows, n_names=2)


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
