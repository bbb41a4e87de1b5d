"""However a sweep ends early, it ends in one sentence."""

from pathlib import Path

import pytest

import dimsweep.sweeper.cli.report
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.run.loop import StudyPlan
from tests.sweeper.cli.test_cli import SMALL


def test_control_c_before_the_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dimsweep.sweeper.run.session.make_executor", interrupted)
    assert main(["sweep", *SMALL, f"results={tmp_path}"]) == 130
    assert "stopped before the first trial; the same command continues" in capsys.readouterr().out


def test_control_c_while_the_study_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dimsweep.sweeper.questions.plan.plan_study", interrupted)
    assert main(["sweep", *SMALL, f"results={tmp_path}"]) == 130
    assert capsys.readouterr().err.strip() == "stopped"


def test_a_report_that_cannot_be_written_says_that_the_rows_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dimsweep.sweeper.cli.report, "report_study", full)
    assert main(["sweep", *SMALL, f"results={tmp_path}"]) == 1
    error = capsys.readouterr().err
    assert "the report cannot be written: No space left on device; all rows are safe" in error


def test_a_report_of_no_rows(
    small: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan: StudyPlan = small()  # type: ignore[operator]
    with Ledger(plan.folder, plan.study, plan.schema):
        pass
    results = f"results={tmp_path / 'results'}"
    assert main(["report", "study=libra_gpt3_4d", results]) == 1
    assert "no trial has been run yet" in capsys.readouterr().err
