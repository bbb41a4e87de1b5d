"""What each decision loses in each scenario against the best there, and over all of them."""

import math

import numpy as np

from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.naming import narrow
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.words import loss, percent

_WIDE = 6  # scenarios; of more the table has the worst and the mean alone


def table(report: Report) -> list[Sheet]:
    """A row for each decision, the one that loses least first."""
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    n = len(decisions.scenarios)
    scenes = range(n) if n <= _WIDE else range(0)
    uneven = bool(np.ptp(decisions.share) > 0)
    heads = [narrow(decisions.scene(s)) for s in scenes]
    if uneven:
        heads = [f"{head}\n({percent(decisions.share[s])})" for s, head in enumerate(heads)]
    columns = ["decision", *heads, "worst", "weighted\nmean" if uneven else "mean"]
    columns += ["best in"]
    rows = []
    for d in decisions.ranking:
        row = [decisions.name(d), *(_text(float(decisions.regrets[d, s])) for s in scenes)]
        row += [_text(float(decisions.worst[d])), _text(float(decisions.mean[d]))]
        row += [f"{_wins(decisions, d)} of {n}"]
        rows.append(tuple(row))
    counts = "each counts by its weight" if uneven else "each counts the same"
    title = f"What a decision loses against the best of each scenario; {counts}{_how(report)}"
    return [Sheet(title, tuple(columns), rows)]


def _how(report: Report) -> str:
    """With which split a decision stands for itself, where splits are searched."""
    if not any(cell.split_varies for cell in report.found):
        return ""
    if report.portfolios:
        return " (each with its one split for all)"
    return " (each with its best split for that scenario)"


def _wins(decisions: Decisions, decision: int) -> int:
    return sum(decisions.order(s)[0] == decision for s in range(len(decisions.scenarios)))


def _text(regret: float) -> str:
    """A regret; a dash where a decision does not run."""
    return loss(regret) if math.isfinite(regret) else "-"


SECTION = Section(of_study=table)
