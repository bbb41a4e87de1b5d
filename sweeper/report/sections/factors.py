"""One decision against another as factors: the range over each scenario, and over all."""

from collections.abc import Sequence

import numpy as np

from dimsweep.sweeper.report.factors import BASELINE, Factors, factors
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.words import ratio

_MOST = 20  # decisions against one baseline


def tables(report: Report) -> list[Sheet]:
    """Of two values of a decision a row for each scenario; of decisions against the baseline a row
    for each decision."""
    if report.study.is_certified:  # a few of many designs, and none of them at random
        return []
    found = factors(report.decisions)
    if {each.reference for each in found} == {BASELINE} and len(found) > 1:
        return [_against_baseline(found[:_MOST])]
    return [_table(each) for each in found if len(each.values) > 1]


def _against_baseline(found: Sequence[Factors]) -> Sheet:
    rows = [
        (f.subject, str(len(f.values)), ratio(min(f.values)), _median(f), ratio(max(f.values)))
        for f in found
    ]
    columns = ("decision", "scenarios", "least", "median", "most")
    return Sheet(f"How many times better than {BASELINE}", columns, rows)


def _median(found: Factors) -> str:
    return ratio(float(np.median(found.values)))


def _table(found: Factors) -> Sheet:
    rows = [
        (scenario or "all", str(n), ratio(low), ratio(high))
        for scenario, low, high, n in found.ranges
    ]
    if len(rows) > 1:
        ends = ratio(min(found.values)), ratio(max(found.values))
        rows.append((f"all, median {_median(found)}", str(len(found.values)), *ends))
    return Sheet(found.claim, ("scenario", "pairs", "least", "most"), rows)


SECTION = Section(of_study=tables)
