"""dimsweep trace learn, synthesise and obfuscate as a user types them."""

import json
from pathlib import Path

import pytest

from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.cli.main import main
from tests.support.jobs import cluster_of, draw, n_ranks, pipelined


@pytest.fixture(autouse=True)
def some_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of a dozen jobs, with what they were asked for."""
    monkeypatch.chdir(tmp_path)
    Path("jobs").mkdir()
    family = draw(12, 0, hidden=(512,), tensor=(2,), pipeline=(1,), data=(2,))
    for number, keys in enumerate(family):
        write_chakra_workload(pipelined(keys), cluster_of(n_ranks(keys)), Path(f"jobs/j{number}"))
        Path(f"jobs/j{number}.keys.json").write_text(json.dumps(keys))


def test_traces_nobody_has_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "learn", *map(str, sorted(Path("jobs").iterdir()))]) == 0
    said = capsys.readouterr().out
    assert "model.json: 1 part of 12 jobs" in said and "hidden: never varied" in said
    asked = ["layers=4", "sequence=4096", "micro_batches=7"]
    assert main(["trace", "synthesise", "model.json", *asked, "-o", "w"]) == 0
    assert "warning: sequence=4096 is extrapolated" in capsys.readouterr().err
    assert main(["trace", "lint", "w"]) == 0
    assert main(["trace", "obfuscate", "w", "shared", "--privacy", "0.1"]) == 0
    assert main(["trace", "lint", "shared"]) == 0
    assert b"layer" in Path("w.0.et").read_bytes()
    assert b"layer" not in Path("shared.0.et").read_bytes()


def test_a_workload_notes_what_it_was_asked_for() -> None:
    words = ["topology=one_switch", "topology.shape=Switch(8)", "workload.parallel.tensor=4"]
    keys = "workload.layers,workload.parallel.tensor"
    assert main(["trace", "write", "g", *words, "workload.layers=3", "--keys", keys]) == 0
    assert json.loads(Path("g.keys.json").read_text()) == {"layers": 3, "tensor": 4}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn", "gone"], "gone"),
        (["synthesise", "gone.json", "layers=3"], "cannot read the file"),
        (["synthesise", "jobs/j0.keys.json", "layers=3"], "not a model of traces"),
        (["synthesise", "gone.json", "layers=many"], "KEY=NUMBER"),
        (["obfuscate", "jobs/j0", "jobs/j0"], "would overwrite"),
        (["obfuscate", "jobs/j0", "o", "--privacy", "3"], "3; it must be from 0 to 0.5"),
    ],
)
def test_what_cannot_be_is_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_keys_that_are_missing_or_no_numbers_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs/j0.keys.json").write_text('{"layers": "many"}')
    assert main(["trace", "learn", "jobs/j0"]) == 1
    assert "j0.keys.json: layers: 'many' is not a number" in capsys.readouterr().err
    Path("jobs/j0.keys.json").unlink()
    assert main(["trace", "learn", "jobs/j0"]) == 1
    assert "dimsweep trace write --keys writes it" in capsys.readouterr().err
