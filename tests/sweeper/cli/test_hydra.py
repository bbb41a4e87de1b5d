"""Hydra's own options, as its users know them; and what is completed of its overrides."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.places import list_folders, set_extra_folders

OWN = """\
defaults: [kind/layers, _self_]
name: my own
parallel: {tensor: 8, data: rest}
layers:
- {name: b, forward: {flops: 2 TFLOP}}
"""
MINE = "defaults: [override /workload: own, override /executor: inline, _self_]\nnote: from there\n"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of configuration groups, beside the one that is worked in."""
    here, there = tmp_path / "here", tmp_path / "it's there, too"
    here.mkdir()
    for group, name, text in (("workload", "own", OWN), ("study", "mine", MINE)):
        (there / group).mkdir(parents=True)
        (there / group / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(here)
    yield there
    set_extra_folders(())


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 1
    told = capsys.readouterr()
    assert not told.out and "Traceback" not in told.err
    return told.err


@pytest.mark.parametrize("command", ["simulate", "sweep"])
def test_cfg_prints_what_is_composed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["libra_gpt3_4d", "collective.chunks=16", "workload=gpt3_libra"]
    job = yaml.safe_load(said(capsys, command, *words, "--cfg", "job", "--resolve"))
    ours = compose(["study=libra_gpt3_4d", *words[1:]]).config
    assert job["collective"]["chunks"] == 16 and job["workload"]["name"] == ours.workload.name
    assert {*job} == {*ours.text}
    assert {*yaml.safe_load(said(capsys, command, "-c", "hydra"))} == {"hydra"}
    assert {*yaml.safe_load(said(capsys, command, "--cfg=all"))} == {"hydra", *ours.text}


def test_cfg_prints_a_package_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "libra_gpt3_4d", "collective.chunks=2,4", "-c", "job", "-p"]
    assert said(capsys, *words, "grid") == "# @package grid\ncollective.chunks:\n- 2\n- 4\n"
    assert said(capsys, *words, "objective") == "time\n"
    assert said(capsys, *words, "_global_").startswith("workload:")
    assert "no such package" in refused(capsys, *words, "nowhere")


def test_cfg_prints_the_axis_that_a_value_takes_the_place_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["grid={workload.parallel: [{tensor: 2}], fold: [true, false]}", "fold=true"]
    cfg = ["-c", "job", "-p", "grid"]
    assert "- true" in (swept := said(capsys, "sweep", *words, *cfg)) and "- false" not in swept
    # One design is of no cell, so nothing is laid over it.
    one = "workload.parallel.tensor=4"
    assert "- false" in said(capsys, "simulate", *words, one, *cfg)
    assert "sets workload.parallel," in refused(capsys, "sweep", *words, one, *cfg)


def test_cfg_resolves_when_it_is_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "note='chunks ${collective.chunks}'", "-p", "_global_", "--cfg", "job"]
    assert yaml.safe_load(said(capsys, *words))["note"] == "chunks ${collective.chunks}"
    assert yaml.safe_load(said(capsys, *words, "--resolve"))["note"] == "chunks 64"
    nowhere = ["simulate", "note='${nowhere}'", "--cfg", "job"]
    assert "nowhere" in refused(capsys, *nowhere, "--resolve")


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ("defaults", "| topology/libra_3d"),
        ("defaults-tree", "profile: native"),
        ("searchpath", "studies://"),
        ("plugins", "ConfigSource"),
        ("config", "chunks: 16"),
        (None, "Defaults List"),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "sweep"])
def test_info_tells_what_hydra_knows(
    command: str, info: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        command,
        "topology=libra_3d",
        "collective.chunks=16",
        "--info",
        *([info] if info else []),
    ]
    handlers = list(logging.getLogger().handlers)
    assert says in said(capsys, *words)
    assert logging.getLogger().handlers == handlers  # Hydra adds one, and leaves it there


def test_a_folder_is_searched_by_option_and_by_override(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_override = f"hydra.searchpath=['{str(there).replace(chr(39), chr(92) + chr(39))}']"
    for words in (["--config-dir", str(there)], ["-cd", str(there)], [by_override]):
        assert "my own on " in said(capsys, "simulate", "workload=own", *words)
        found = said(capsys, "sweep", "study=mine", *words, "--cfg", "job")
        assert yaml.safe_load(found)["note"] == "from there"
        assert str(there) in said(capsys, "simulate", *words, "--info", "searchpath")
    assert "did you mean" in refused(capsys, "simulate", "workload=own")


@pytest.mark.long
def test_a_study_there_is_swept_and_each_of_its_cells_composed(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ["sweep", "-m", "-cd", str(there), "mine", "workload=own,gpt3_libra"]
    assert "2 trials simulated" in said(capsys, *sweep, "collective.chunks=4", "what_if=null")
    assert (Path("results") / "mine" / "study.json").is_file()
    assert list_folders("conf")[-1] == there.resolve()
    compose([])
    assert there.resolve() not in list_folders("conf")


def test_ones_own_files_and_the_installed_ones_go_before(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Hydra has it: --config-dir adds options, and replaces none."""
    (there / "collective").mkdir()
    (there / "collective" / "default.yaml").write_text("chunks: 3\n")
    words = ["simulate", "-cd", str(there), "-c", "job", "-p", "collective.chunks"]
    assert said(capsys, *words) == "64\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["simulate", "-m"], "`dimsweep sweep` simulates several"),
        (["simulate", "collective.chunks=1,2"], "`dimsweep sweep` simulates several"),
        (["simulate", "--config-dir", "/nowhere"], "--config-dir: no folder /nowhere"),
        (["simulate", "--package", "grid"], "--package needs --cfg; add --cfg job"),
        (["sweep", "--resolve"], "--resolve needs --cfg; add --cfg job"),
        (["sweep", "--cfg", "job", "--info"], "--cfg and --info each print something else"),
        (["sweep", "--cfg", "none"], "'none' is not one of 'job', 'hydra', 'all'"),
        (["sweep", "--info", "nothing"], "'nothing' is not one of 'all', 'config'"),
        (["sweep", "--info", "all", "topology=nothing"], "unknown topology 'nothing'"),
        (["sweep", "--cfg", "job", "topolgy.shape=x"], "topolgy"),
    ],
)
def test_wrong_words(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(capsys, *words)


def test_a_broken_file_there_is_told(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "workload" / "own.yaml").write_text("a: [")
    told = refused(capsys, "simulate", "-cd", str(there), "workload=own")
    assert "own.yaml" in told and "not YAML" in told


@pytest.mark.parametrize(
    ("line", "found", "others"),
    [
        ("sweep lib", "libra_gpt3_4d", True),
        ("sweep libra_gpt3_4d lib", "", False),
        ("sweep topology=libra_3d,libra_4", "topology=libra_3d,libra_4d", False),
        ("sweep topology=libra_3d,libra_4d coll", "collective=", True),
        ("sweep --config-", "--config-dir ", False),
        ("sweep --info sea", "searchpath ", False),
    ],
)
def test_completion(
    line: str, found: str, others: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = said(capsys, "complete-words", f"dimsweep {line}").splitlines()
    assert (found in words) == bool(found) and (len(words) > 1) == others


def test_what_lies_there_is_completed(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = there.rename(there.with_name("there"))
    for word, found in (("min", "mine"), ("workload=ow", "workload=own")):
        assert said(capsys, "complete-words", f"dimsweep sweep -cd {folder} {word}") == f"{found}\n"
