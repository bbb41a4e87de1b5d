"""Studies and results whose paths have the signs of an override, as Hydra's folders have."""

import shutil
from pathlib import Path

import pytest

from dimsweep.sweeper.cli.main import main

STUDY = """\
defaults: [override /workload: all_reduce, override /executor: inline, _self_]
topology: {shape: Switch(4), bandwidth: 100 GB/s, latency: 1 us, tiers: []}
objective: time
what_if: null
grid: {collective.chunks: [1, 2]}
"""


@pytest.mark.parametrize("folder", ["a=b", "lr=0.1,batch=2", "it's=1"])
def test_a_study_is_found_whatever_its_folder_is_called(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir()
    (Path(folder) / "s.yaml").write_text(STUDY)
    for word in (f"{folder}/s.yaml", f"./{folder}/s.yaml", f"study={folder}/s.yaml"):
        assert main(["show", word]) == 0
        assert "chunks" in capsys.readouterr().out
    assert main(["sweep", f"{folder}/s.yaml"]) == 0
    shutil.copytree("results/s", Path(folder) / "found")
    assert main(["report", f"{folder}/found"]) == 0
    assert "2 of 2 trials" in capsys.readouterr().out


def test_a_study_that_is_missing_is_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "libra_gpt3_4"]) != 0
    assert "did you mean libra_gpt3_4d?" in capsys.readouterr().err
