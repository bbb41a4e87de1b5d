"""Why a network or a plan loses against the best one."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from dimsweep.sweeper.ledger.schema import PATH_PARTS
from dimsweep.sweeper.report.sections.proof import why
from dimsweep.sweeper.report.words import fine_percent


def design(**best: float) -> Any:
    return SimpleNamespace(best=pd.Series({"compute_s": 1.0, **best}), dims=["Ring(2)"] * 2)


def test_what_a_runner_up_loses_by_is_the_path_s_or_where_messages_have_none_the_time_s() -> None:
    parts = {part.at(d): 0.1 for part in PATH_PARTS.values() for d in range(2)}
    first, other = design(time_s=2.0, **parts), design(time_s=2.5, **parts)
    other.best["path_latency_1_s"] += 0.5
    assert why(other, first) == "25% slower, in dimension 1"
    nothing = dict.fromkeys(parts, float("nan"))
    first = design(time_s=2.0, exposed_s=1.0, waiting_s=0.0, **nothing)
    other = design(time_s=2.5, exposed_s=1.5, waiting_s=0.0, **nothing)
    assert why(other, first) == "25% slower, in exposed communication"
    assert why(first, other) == "a near tie"


def test_shares_beyond_all_are_whole_percents() -> None:
    assert fine_percent(1.04) == "104%"
    assert fine_percent(12.3) == "1230%"
    assert fine_percent(0.00123) == "0.12%"
