"""Recorded runs of uet-htsim: those without chance to 0.1 %, and files that are none."""

import json
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.extensions.uet_htsim.verify import Recorded, read_runs
from tests.support.golden import COMMITTED

FOLDER = COMMITTED / "uet"
RUNS = [run for run in read_runs(FOLDER) if run.experiment]
ALONE = [run for run in RUNS if "Single" in run.name or "Bidirectional" in run.name]


@pytest.mark.parametrize("run", ALONE, ids=lambda run: run.name)
def test_what_nothing_depends_on_chance_in_is_as_recorded(run: Recorded) -> None:
    assert run.experiment
    ours = run.experiment.run()
    assert ours.ends.min() / 1e6 == pytest.approx(run.first, abs=0.0006)  # six digits are printed
    assert ours.ends.max() / 1e6 == pytest.approx(run.last, abs=0.0006)
    assert ours.resent.sum() == run.resent == 0


@pytest.mark.parametrize(
    "run", [run for run in RUNS if "cast" in run.name], ids=lambda run: run.name
)
def test_casts_last_as_long_as_recorded(run: Recorded) -> None:
    """Whoever sends first, the receiver's link is busy until the end."""
    assert run.experiment
    ours = run.experiment.run()
    assert ours.ends.max() / 1e6 == pytest.approx(run.last, rel=0.003)
    assert ours.resent.sum() == pytest.approx(run.resent, rel=0.02)


def test_all_committed_runs_are_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "uet", str(FOLDER), "--json"]) == 0
    points = json.loads(capsys.readouterr().out)
    assert len(points) == len(RUNS) == 19
    assert all(point["verdict"] for point in points)


def test_messages_of_a_connection_follow_one_another(tmp_path: Path) -> None:
    line = json.loads((FOLDER / "runs.jsonl").read_text().splitlines()[0])
    matrix = "Nodes 2\nConnections 2\nTriggers 0\n" + "0->1 id 1 msg start 0 size 4086\n" * 2
    (tmp_path / "m.cm").write_text(matrix)
    line |= {"matrix": "m.cm", "arguments": "-sender_cc_only -conn_reuse"}
    (tmp_path / "runs.jsonl").write_text(json.dumps(line))
    (run,) = read_runs(tmp_path)
    assert run.experiment and run.experiment.flows == ((0, 1, 8172, 0),)
    (tmp_path / "m.cm").write_text(matrix.replace("4086", "4087"))
    (run,) = read_runs(tmp_path)
    assert run.experiment is None and "connection" in run.left_out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("-receiver_cc_only -sender_cc_only", "neither NSCC nor RCCC"),
        ("-sender_cc_only -sleek", "the argument -sleek is not simulated"),
        ("-sender_cc_only -failed 1 -topo x.topo", "links that fail"),
    ],
)
def test_what_is_beyond_the_model_is_left_out(arguments: str, why: str, tmp_path: Path) -> None:
    line = json.loads((FOLDER / "runs.jsonl").read_text().splitlines()[0])
    (tmp_path / "runs.jsonl").write_text(json.dumps(line | {"arguments": arguments}))
    (run,) = read_runs(tmp_path)
    assert run.experiment is None and why in run.left_out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"first_us": -1}, "first_us"),
        ({"summary": "nothing"}, "summary"),
        ({"arguments": "-sender_cc_only -load_balancing_algo best"}, "load_balancing_algo"),
        ({"matrix": "nope.cm"}, "nope.cm"),
        ({"matrix": "flows.cm"}, "flows.cm: line 2"),
        ({"matrix": "odd.cm"}, "form a fat tree"),
        ({"arguments": "-sender_cc_only -topo odd.cm"}, "odd.cm: line 2"),
    ],
)
def test_what_is_no_recorded_run_is_told(
    changed: dict[str, object], told: str, tmp_path: Path
) -> None:
    line = json.loads((FOLDER / "runs.jsonl").read_text().splitlines()[0])
    (tmp_path / "flows.cm").write_text("Nodes 16\n0->16 start 0 size 10\n")
    (tmp_path / "odd.cm").write_text("Nodes 15\nConnections 1\n0->1 start 0 size 10\n")
    (tmp_path / "connection_matrices").symlink_to(FOLDER / "connection_matrices")
    (tmp_path / "runs.jsonl").write_text(json.dumps(line | changed))
    with pytest.raises(DimsweepError, match=told):
        list(read_runs(tmp_path))


def test_a_folder_without_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(DimsweepError, match=r"a folder with runs.jsonl"):
        list(read_runs(tmp_path))
