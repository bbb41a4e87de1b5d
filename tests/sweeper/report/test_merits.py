"""What a report says of the objective of a study, beside its time."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dimsweep import load
from dimsweep.sweeper.objective import COST, PERF_PER_COST, TIME, Objective
from dimsweep.sweeper.questions.findings import read_report, tabulate_study
from dimsweep.sweeper.report import describe
from tests.support.studies import planned, run


@pytest.mark.parametrize(
    ("objectives", "npu_price", "said"),
    [
        ((PERF_PER_COST,), 0.0, "best per USD without NPUs"),
        ((PERF_PER_COST,), 30e3, "best per USD"),
        ((TIME,), 0.0, "fastest"),
        ((TIME, COST), 0.0, "fastest to within 1%"),
    ],
)
def test_a_price_says_whether_npus_are_in_it(
    objectives: tuple[Objective, ...], npu_price: float, said: str
) -> None:
    cell: Any = SimpleNamespace(objective=objectives[0], objectives=objectives, npu_price=npu_price)
    assert describe.superlative(cell) == said


def test_the_table_of_cells_has_what_was_searched_for(tmp_path: Path) -> None:
    words = ["workload=gpt3_13b", "topology=dgx_h100", "topology.shape=Switch(8)_Switch(2)"]
    words += ["npu=h100", "workload.model.layers=2", "workload.plan.batch=16", "name=sought"]
    words += ["reliability=llama3", "objective=effective_time", "what_if=null"]
    words += ["grid={workload.plan.micro_batch: [1, 2]}"]
    plan = planned(words, tmp_path)
    run(plan)
    found = [
        sheet for sheet in tabulate_study(read_report(plan.folder)) if "every cell" in sheet.title
    ]
    at = found[0].columns.index("effective time")
    rows = load(plan.folder).to_pylist()
    told = {row[at] for row in found[0].rows}
    kept = found[0].columns.index("ETTR")
    assert {row[kept] for row in found[0].rows} == {f"{row['ettr']:.2%}" for row in rows}
    assert told == {plan.cells[0].objective[0].show(row["effective_time_s"]) for row in rows}


@pytest.mark.parametrize("dear_first", [True, False])
def test_of_designs_that_are_as_good_the_headline_tells_which_costs_less(
    dear_first: bool, tmp_path: Path
) -> None:
    """Nothing is sent in the second dimension, whose bandwidth has a price all the same."""
    words = ["workload=gpt3_13b", "topology=dgx_h100"]
    words += ["npu=h100", "workload.model.layers=2", "workload.plan.batch=16", "name=alike"]
    words += ["workload.parallel={tensor: 8, data: rest}", "cost=dgx_h100", "what_if=null"]
    words += ["topology.shape=Switch(8)_Switch(2)", "objective=time", "workload.plan.task=prefill"]
    each = ["[450 GB/s, 100 GB/s]", "[450 GB/s, 10 GB/s]"]
    words += [f"grid={{topology.bandwidth: [{', '.join(each if dear_first else each[::-1])}]}}"]
    plan = planned(words, tmp_path)
    run(plan)
    headline = read_report(plan.folder).headline
    assert " is as good" in headline
    assert bool(re.search(r"is as good and costs [\d.]+% less$", headline)) == dear_first
