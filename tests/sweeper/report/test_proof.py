"""Why a network or a plan loses against the best one."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from dimsweep.sweeper.ledger.record import Change, End, Proof, Step
from dimsweep.sweeper.questions.networks.findings import moved, why
from dimsweep.sweeper.report.words import fine_percent


def design(**best: float) -> Any:
    time = {"compute_s": 1.0, "exposed_0_s": 0.5, "exposed_1_s": 0.5, "waiting_s": 0.0, **best}
    return SimpleNamespace(best=pd.Series(time), dims=["Ring(2)"] * 2)


def test_what_a_runner_up_loses_by_is_the_part_of_the_time_that_grew_most() -> None:
    first = design(time_s=2.0)
    assert why(design(time_s=2.5, exposed_1_s=1.0), first) == "25% slower, in dimension 1"
    assert why(design(time_s=2.5, waiting_s=0.5), first) == "25% slower, in waiting"
    assert why(design(time_s=2.5, compute_s=1.5), first) == "25% slower, in computation"
    assert why(first, design(time_s=2.5)) == "a near tie"


def test_a_critical_path_that_leads_elsewhere_is_no_reason() -> None:
    first = design(time_s=2.0, path_compute_s=0.5, path_transfer_0_s=1.5)
    other = design(time_s=2.5, path_compute_s=2.0, path_transfer_0_s=0.5, exposed_1_s=1.0)
    assert why(other, first) == "25% slower, in dimension 1"


def test_networks_of_other_dimensions_are_compared_by_all_communication() -> None:
    first = design(time_s=2.0, exposed_s=1.0, exposed_1_s=float("nan"))
    assert why(design(time_s=2.5, exposed_s=1.5), first) == "25% slower, in exposed communication"


def test_shares_beyond_all_are_whole_percents() -> None:
    assert fine_percent(1.04) == "104%"
    assert fine_percent(12.3) == "1230%"
    assert fine_percent(0.00123) == "0.12%"


def test_what_nobody_knows_of_changes_no_answer() -> None:
    named, by = {"a": "1"}, {"a": "2"}

    def told(up: End, down: End) -> tuple[str, str]:
        one = Change(name="price", down=down, up=up, near_down=down, near_up=up)
        proof = Proof(cells=9, excluded=(8, 0, 0), bounded=1, simulated=1, changes=(one,))
        return moved(proof, named)

    unknown, far = End(factor=1.0, is_open=True), End(factor=0.5)
    assert told(End(factor=1.2, by=by), unknown) == (
        "price above 1.2 times its value",
        "then a 2 is better by more than 1%; it is not known of price below 1 times its value",
    )
    assert told(unknown, far) == (
        "nothing that is known",
        "it is not known of price above 1 times its value",
    )
    assert told(End(factor=2.0), far) == (
        "no design is better by more than 1% at any one price times 0.5 to 2",
        "",
    )


def test_the_limit_of_a_front_is_that_of_the_next_dearer_step() -> None:
    steps = [Step(cost=9.0, time=1.0, bound=0.9), Step(cost=4.0, time=2.0, bound=1.9)]
    proof = Proof(cells=9, excluded=(8, 0, 0), bounded=1, simulated=1, bound=0.8, front=steps)
    assert [proof.limit(cost) for cost in (3.0, 4.0, 5.0, 9.0, 10.0)] == [1.9, 1.9, 0.9, 0.9, 0.8]
    assert proof.limit(None) == 0.8
