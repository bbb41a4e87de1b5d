"""How sure a simulated time is: by kind of model and number of NPUs, printed and stored."""

from pathlib import Path

import pytest
from rich.console import Console

from engine import DimsweepError
from sweeper import load
from sweeper.build.accuracy import time_error
from sweeper.cli.main import main
from sweeper.cli.sweep import sweep_study
from sweeper.config.compose import compose

ERRORS = "npu.error={dense: [[8, 0.04], [64, 0.06]], experts: [[64, 0.2]]}"
SMALL = (
    "workload=gpt3_13b",
    "workload.plan.batch=8",
    "topology=dgx_a100",
    "topology.shape=Switch(8)_Switch(4)",
)


def error(*overrides: str) -> float | None:
    return time_error(compose([*SMALL, "npu=a100", ERRORS, *overrides]).config)


def test_an_error_is_that_of_the_kind_and_the_scale() -> None:
    assert error() == 0.06
    assert error("topology.shape=Switch(8)_Switch(1)") == 0.04
    assert error("topology.shape=Switch(8)_Switch(999)") == 0.06  # of the largest known
    assert error("workload=mixtral_8x22b") == 0.2


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert error("workload=resnet50") is None
    assert error("workload.plan.task=prefill") is None


@pytest.mark.parametrize(
    "table",
    ["{dense: [[64, 0.1], [8, 0.1]]}", "{dense: [[8, 1.5]]}", "{dense: []}", "{small: [[8, 0.1]]}"],
)
def test_a_table_of_errors_makes_sense(table: str) -> None:
    with pytest.raises(DimsweepError) as raised:
        compose([*SMALL, f"npu.error={table}"])
    assert raised.value.where.startswith("npu.error")


def test_a_time_is_printed_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *SMALL, "workload.model.layers=4", ERRORS]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "iteration" in line)
    assert "s ± 6%" in line


@pytest.mark.parametrize(("size", "doubted"), [("0.9", True), ("0.0001", False)])
def test_a_study_stores_errors_and_says_when_designs_differ_by_less(
    tmp_path: Path, size: str, doubted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [
        *SMALL,
        "workload.model.layers=4",
        f"npu.error={{dense: [[64, {size}]]}}",
        "name=errors",
        f"results={tmp_path}",
        "executor=inline",
        "search=random",
        "budget.trials=6",
        "space.bandwidth.total=40 GB/s",
    ]
    assert sweep_study(compose(overrides), Console(width=200, soft_wrap=True)) == 0
    rows = load(tmp_path / "errors").to_pandas()
    assert set(rows.time_error) == {float(size)}
    said = capsys.readouterr().out
    assert ("differ by less than the error of such times" in said) == doubted
