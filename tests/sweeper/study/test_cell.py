"""The plan of one cell."""

from pathlib import Path

import pytest

from dimsweep.engine import InfeasibleError
from tests.support.studies import planned, run

SEARCHED = (
    *("workload=llama3_8b", "workload.model.layers=1", "cluster=dgx_h100", "nodes=1"),
    *("workload.plan.batch=64", "workload.plan.micro_batches=null", "search=grid", "what_if=null"),
    *("workload.parallel={tensor: 16, data: rest}", "name=searched"),
)


@pytest.mark.long
def test_what_every_trial_overrides_need_not_be_feasible(tmp_path: Path) -> None:
    """16 ranks do not fit on 8 NPUs, and no trial has so many."""
    values = "+space.parameters={workload.parallel.tensor: {values: [2, 4]}}"
    plan = planned([*SEARCHED, values], tmp_path)
    (cell,) = plan.cells
    assert cell.first[0].parameters == {"workload.parallel.tensor": 2}
    assert run(plan).failed == 0


def test_a_cell_of_which_nothing_is_feasible_says_what_was_written(tmp_path: Path) -> None:
    values = "+space.parameters={workload.parallel.tensor: {values: [32, 64]}}"
    with pytest.raises(InfeasibleError, match="a degree of 16 does not fit"):
        planned([*SEARCHED, values], tmp_path)
