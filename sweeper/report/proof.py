"""How near the best of all networks and plans what was found is, in one sentence."""

from collections.abc import Iterator, Mapping, Sequence

from dimsweep.sweeper.ledger.record import LEFT_OUT, Change, End, Proof, Rival, StudyRecord
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report.naming import beside
from dimsweep.sweeper.report.summary import CellSummary
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
