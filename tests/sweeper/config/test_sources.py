"""Every number of conf/{npu,topology,cluster,memory,cost} says where it is from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose, read_cluster_parts
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.sources import (
    GROUPS,
    SOURCES,
    Document,
    Evidence,
    find_preset,
    is_at_or_above,
    read_documents,
    read_figures,
    read_values,
    walk_numbers,
    without_sources,
)
from dimsweep.sweeper.places import list_folders, list_groups
from tests.support.refused import refused

PRESETS = [(group, name) for group in GROUPS for name in list_groups()[group]]


def own(file: Path) -> tuple[list[str], list[str]]:
    """The keys of a file's own numbers, and those of its own sources."""
    node = read_options(file).node
    plain = OmegaConf.to_container(without_sources(node), resolve=False)
    assert isinstance(plain, dict)
    plain.pop("defaults", None)
    found = [key for key, _ in walk_numbers({str(key): value for key, value in plain.items()})]
    return found, list(node.get(SOURCES) or ())


@pytest.mark.parametrize(("group", "name"), PRESETS, ids="/".join)
def test_every_number_has_a_source_in_its_own_file(group: str, name: str) -> None:
    """A number that a file changes does not keep the source of the one that it replaces."""
    found, sources = own(find_preset(group, name))
    found = [key for key in found if not key.startswith("parts.")]  # each of which says its own
    assert [
        key for key in found if not any(is_at_or_above(source, key) for source in sources)
    ] == []
    assert [s for s in sources if not any(is_at_or_above(s, key) for key in found)] == [], (
        "of nothing"
    )
    assert all(figure.source for figure in read_figures(group, name))


def test_a_machine_has_no_numbers_of_its_own() -> None:
    for name in list_groups()["cluster"]:
        assert own(find_preset("cluster", name)) == ([], [])
        assert read_cluster_parts(find_preset("cluster", name))


def test_every_document_is_named_by_a_number_and_dated() -> None:
    used = {figure.source for pair in PRESETS for figure in read_figures(*pair)}
    listed = {each for each in used if each and each.evidence is Evidence.LISTED}
    assert used - listed == set(read_documents().values())
    assert {document.evidence for document in used if document} == set(Evidence)
    for document in read_documents().values():
        assert "1999" <= document.date < "2027"
        linked = document.url or "docs/" in document.document
        assert linked or document.evidence is Evidence.ESTIMATE or "IEEE" in document.document


def test_the_pages_that_documents_name_exist() -> None:
    root = list_folders("conf")[-1].parent
    for document in read_documents().values():
        for word in document.document.replace("(", " ").replace(")", " ").split():
            assert not word.startswith("docs/") or (root / word).is_file(), word


@pytest.mark.parametrize(
    ("npu", "gib"),
    [
        *(("a100", 80), ("h100", 79.1), ("h200", 139.8), ("b200", 178.35), ("gb200", 184.31)),
        *(("b300", 267.69), ("gb300", 276.5), ("tpu_v5p", 95), ("tpu_v7", 192)),
    ],
)
def test_memory_is_what_the_device_reports(npu: str, gib: float) -> None:
    """Data sheets count GB and mean now this and now that: the H200's 141 GB are 139.8 GiB, and the
    B200's 180 GB are 178.35 GiB."""
    memory = compose([f"npu={npu}"]).config.npu.memory
    assert memory == pytest.approx(gib * 2**30)


def test_where_a_number_is_from_changes_no_result() -> None:
    config = compose(["cluster=dgx_h100", "nodes=2"]).config
    assert all(SOURCES not in config.text[group] for group in GROUPS)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["show", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_show_tells_documents_and_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "npu/gb200", "--sources")
    assert lines[0] == "npu/gb200"
    below = {line.split()[0]: document for line, document in _with_document(lines)}
    assert below["flops.bf16"].startswith("  data sheet, 2024: NVIDIA, DGX B200")
    assert below["efficiency"].startswith("  estimate, ")  # the B200's own is measured
    assert below["memory"].startswith("  measured, ")


def _with_document(lines: list[str]) -> Iterator[tuple[str, str]]:
    document = ""
    for line in lines[1:]:
        if not line.startswith("    "):
            document = line
        elif "https://" not in line:
            yield line, document


def test_the_nearest_key_says_where_a_number_is_from() -> None:
    """A rack's price list has NVLink's own, and the others of the list that it goes on from."""
    told = {figure.key: figure.source for figure in read_figures("cost", "gb200_nvl72")}
    assert told["tiers.package.link"] == read_documents()["chosen"]
    assert told["tiers.pod.link"] == read_documents()["reported_prices"]
    assert told["power.npu"] == read_documents()["gb200_superpod"]


def test_show_tells_of_a_machine_all_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    heads = [line for line in shown(capsys, "cluster/dgx_h100", "--sources") if line[0] != " "]
    assert heads == ["topology/hgx_h100", "npu/h100", "cost/dgx_h100"]
    text = "\n".join(shown(capsys, "cluster/dgx_h100"))
    assert "shape: Switch(8)_Switch(128)" in text
    assert SOURCES not in text


def test_no_document_knows_what_is_set_beside_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "cluster=dgx_h100", "nodes=4", "npu.memory=70 GB", "--sources")
    below = {line.split()[0]: (line, doc) for line, doc in _with_document(lines)}
    assert below["shape"][1] == below["memory"][1] == "  no document"
    assert " ".join(below["memory"][0].split()) == "memory 70 GB 79.1 GiB in the preset"
    assert below["memory_bandwidth"][1] != "  no document"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["npu/h20"], "unknown npu 'h20'"),
        (["npu/h200", "nodes=3"], "not both"),
        (["workload/gpt3_13b", "--sources"], "gpt3_13b"),
        (["nonsense/h200"], "no such file"),
    ],
)
def test_show_refuses_what_there_is_not(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *words]) == 1 or told in ("not both", "no such file")
    assert told in capsys.readouterr().err


def test_values_are_laid_over_those_that_they_go_on_from() -> None:
    assert read_values("npu", "gb300")["kernels"] == "b200"
    assert read_values("npu", "gb300")["efficiency"] == 0.94
    assert "defaults" not in read_values("npu", "gb300")


def test_an_option_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conf" / "npu"
    folder.mkdir(parents=True)
    mine = folder / "mine.yaml"
    mine.write_text(
        "defaults: [h200, _self_]\nmemory: 100 GiB\nsources: {memory: my_lab (it is)}\n"
    )
    monkeypatch.chdir(tmp_path)
    with refused("sources.memory", "unknown-name", "'my_lab'"):
        read_figures("npu", "mine")
    (tmp_path / "conf" / "sources.yaml").write_text(
        'my_lab: {document: our rack, date: "2026-11", evidence: measured}\n'
    )
    told = {figure.key: figure for figure in read_figures("npu", "mine")}
    assert told["memory"].source == Document(
        document="our rack", date="2026-11", evidence=Evidence.MEASURED
    )
    assert told["memory"].note == "it is"
    assert told["efficiency"].source == read_documents()["fitted_clusters"]
    assert compose(["npu=mine"]).config.npu.memory == 100.0 * 2**30


@pytest.mark.parametrize(
    ("text", "where", "code", "data"),
    [
        ("sources: 5", "mine.yaml: sources", "wrong-type", ""),
        ("sources: {memory: [a, b]}", "mine.yaml: sources", "wrong-type", ""),
        ("sources: {memory: two words}", "sources.memory", "unknown-name", "'two words'"),
        ("defaults: [mine, _self_]", "mine.yaml", "conflict", ""),
    ],
)
def test_wrong_sources_are_refused(
    text: str, where: str, code: Code, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf" / "npu").mkdir(parents=True)
    (tmp_path / "conf" / "npu" / "mine.yaml").write_text(f"memory: 1 GiB\n{text}\n")
    monkeypatch.chdir(tmp_path)
    with refused(where, code, data):
        read_figures("npu", "mine")


@pytest.mark.parametrize(
    "wrong", [{"date": "last year"}, {"evidence": "hearsay"}, {"url": "nowhere"}, {"document": ""}]
)
def test_a_document_has_a_date_and_a_level(wrong: dict[str, str]) -> None:
    right = {"document": "x", "date": "2026", "evidence": "measured", "url": "https://x.y"}
    assert Document.from_plain(right)
    with pytest.raises(DimsweepError):
        Document.from_plain({**right, **wrong})
