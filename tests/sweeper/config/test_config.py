"""The configuration: typed, frozen, and refused where it is wrong, with what would be right."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.kernels.packet.transports import Dcqcn
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.network import Packets
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS, Workload
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.simulation.program import build_program
from tests.support.refused import refused

SMALL = ["study=libra_gpt3_4d", "collective.chunks=4", "budget.trials=2", "name=small"]

UNKNOWN = [
    ("workload.parallel.tensr=8", "workload.parallel.tensr", "tensor"),
    ("workload.hiden=3", "workload.hiden", "hidden"),
    ("topolgy.shape=Ring(4)", "topolgy", "topology"),
    ("collective.chunk=4", "collective.chunk", "chunks"),
    ("npu.flops={fp61: 1 TFLOP/s}", "npu.flops.fp61", "fp16"),
    (
        "npu.systolic={rows: 8, colums: 8, clock: 1 GHz}",
        "npu.systolic.colums",
        "columns",
    ),
    ("network.fabric={kind: clos, levels: 2, leef: 8}", "network.fabric.leef", "leaf"),
    ("cost.tiers.pod.lnk=1 USD", "cost.tiers.pod.lnk", "link"),
    ("space.bandwidth.totl=1 GB/s", "space.bandwidth.totl", "total"),
    ("space.parameters={collective.chunks: {value: [1]}}", "collective.chunks.value", "values"),
    ("search.optons={}", "search.optons", "options"),
    ("executer.actors=2", "executer", "executor"),
    ("budget.trial=3", "budget.trial", "trials"),
]
MODEL_UNKNOWN = [
    ("workload.model.hiden=3", "workload.model.hiden", "hidden"),
    ("workload.plan.micro_bath=1", "workload.plan.micro_bath", "micro_batch"),
    ("workload.parallel.pipline=2", "workload.parallel.pipline", "pipeline"),
    ("workload.model.family=transfomer", "workload.model.family", "transformer"),
]


@pytest.mark.parametrize(
    ("overrides", "where", "meant"),
    [([override], where, meant) for override, where, meant in UNKNOWN]
    + [(["workload=gpt3_175b", o], where, meant) for o, where, meant in MODEL_UNKNOWN],
)
def test_unknown_keys_are_refused_with_the_nearest(
    overrides: list[str], where: str, meant: str
) -> None:
    with refused(where, None, f"did you mean {meant!r}?"):
        build_program(compose(overrides).config)


def test_options_of_a_sampler_are_known() -> None:
    overrides = [*SMALL, "search=tpe", "search.options={n_startup_trial: 3}"]
    with refused("search.options.n_startup_trial", "unknown-key", "'n_startup_trials'"):
        plan_study(compose(overrides))


@pytest.mark.parametrize(
    ("override", "where", "code", "data"),
    [
        ("topology.bandwidth=100", "topology.bandwidth", "wrong-type", "100"),
        ("topology.bandwidth=[1 GB/s,2,1 GB/s]", "topology.bandwidth[1]", "wrong-type", "2"),
        ("topology.latency=1 GB", "topology.latency", "wrong-type", "GB"),
        ("workload.hidden=1.5", "workload.hidden", "wrong-type", "1.5"),
        ("workload.hidden=true", "workload.hidden", "wrong-type", "true"),
        ("fold=1", "fold", "wrong-type", "1"),
        ("collective.order=fastest", "collective.order", "unknown-name", "baseline, themis"),
        ("search.batch=0", "search.batch", "out-of-range", "0"),
        ("space.parameters={fold: {low: 1}}", "fold.high", "missing", ""),
        ("space.parameters={collective.chunks: 4}", "collective.chunks", "wrong-type", "4"),
        ("grid={collective.chunks: 4}", "grid.collective.chunks", "wrong-type", "4"),
        ("topology.shape=null", "topology.shape", "missing", ""),
    ],
)
def test_wrong_values_are_refused(override: str, where: str, code: Code, data: str) -> None:
    with refused(where, code, data):
        build_program(compose([override]).config)


def test_quantities_are_numbers_that_keep_their_text() -> None:
    config = compose(["topology.bandwidth=[0.3 TB/s,100 GiB/s,60 GB/s,20 GB/s]"]).config
    assert config.topology.bandwidth == (3e11, 100 * 2**30, 6e10, 2e10)
    assert config.text["topology"]["bandwidth"][1] == "100 GiB/s"
    assert Config.from_plain(config.text) == config
    assert pickle.loads(pickle.dumps(config)).text == config.text


def test_it_is_frozen_and_changed_as_a_whole() -> None:
    config = compose([]).config
    with pytest.raises(ValidationError, match="frozen"):
        config.fold = False  # type: ignore[misc]
    changed = config.with_values({"collective.chunks": 16, "workload.parallel.tensor": 8})
    assert changed.collective.chunks == 16 and config.collective.chunks == 64
    assert changed.workload.parallel["tensor"] == 8
    with refused("collective.chunks", "wrong-type", "many"):
        config.with_values({"collective.chunks": "many"})
    with refused("collectiv.chunks", "unknown-key"):
        config.with_values({"collectiv.chunks": 3})
    with refused("workload.parallel.tensr", None, "'tensor'"):
        build_program(config.with_values({"workload.parallel": {"tensr": 8, "data": "rest"}}))


@pytest.mark.parametrize("workload", [r"back\slash", "it's", 'a "name"', "{x: [1]}", "a=b"])
def test_a_grid_takes_any_text(workload: str, tmp_path: Any) -> None:
    """Grid values are not written as overrides and parsed again."""
    study = tmp_path / "mine.yaml"
    text = workload.replace("'", "''")
    study.write_text(
        "defaults: [override /executor: inline, _self_]\n"
        f"collective: {{chunks: 4}}\ngrid:\n  workload.name: [plain, '{text}']\n"
    )
    plan = plan_study(compose([f"study={study}"]))
    assert [cell.config.workload.name for cell in plan.cells] == ["plain", workload]


class Idle(Workload):
    """A kind of workload from outside."""

    seconds: float

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        raise DimsweepError(f"idle for {self.seconds} s", where="workload.seconds")


def test_a_kind_of_workload_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "idle", Idle)
    text = {**compose([]).config.text, "workload": {"kind": "idle", "name": "i", "seconds": 2.0}}
    with refused("workload.seconds", "invalid", "idle for"):
        build_program(Config.from_plain(text))
    text["workload"]["secnds"] = 1
    with refused("workload.secnds", "unknown-key", "did you mean 'seconds'"):
        Config.from_plain(text)


def test_a_key_takes_one_value() -> None:
    with refused("collective.chunks", "unsupported", "4,8"):
        compose(["collective.chunks=4,8"])


@pytest.mark.parametrize("study", ["mine", "studies/mine.yaml", "elsewhere.yaml"])
def test_a_file_that_changes_is_read_again(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ("elsewhere.yaml" if study == "elsewhere.yaml" else "studies/mine.yaml")
    file.parent.mkdir(exist_ok=True)
    for chunks in (4, 16):
        file.write_text(f"collective: {{chunks: {chunks}}}\n")
        assert compose([f"study={study}"]).config.collective.chunks == chunks


def test_what_one_configuration_changes_no_other_has() -> None:
    assert compose([*SMALL, "collective.chunks=8"]).config.collective.chunks == 8
    assert compose(SMALL).config.collective.chunks == 4


@pytest.mark.parametrize(
    ("override", "now"),
    [
        ("budget.points=3", "'trials'"),
        ("search.wave=3", "'batch'"),
    ],
)
def test_a_renamed_key_is_told_its_new_name(override: str, now: str) -> None:
    with refused(override.partition("=")[0], "unknown-key", now):
        compose([override])


@pytest.mark.parametrize(
    "written",
    [
        "dcqcn",
        {"kind": "dcqcn", "gain": 0.5, "alpha_every": "2 us", "add": "1 Gb/s"},
        {"kind": "hpcc", "react_fast": False, "stages": 2},
        {"kind": "cubic", "beta": 0.5, "first_rto": "1 ms"},
        {"kind": "nscc", "balance": "reps", "rto": "50 us"},
        {"kind": "rccc", "grant": 8192, "share": 0.9},
    ],
)
def test_a_transport_is_its_name_or_some_of_its_keys(written: object) -> None:
    packets = Packets.from_plain({"transport": written})
    assert packets.plain()["transport"] == written
    assert Packets.from_plain(packets.plain()) == packets
    if isinstance(written, dict) and written["kind"] == "dcqcn":
        assert packets.build().sender == Dcqcn(gain=0.5, alpha_every=2_000_000, add=10**9)
    assert Packets.from_plain({"transport": {"kind": "dcqcn"}}).plain()["transport"] == "dcqcn"


def test_keys_that_name_files_are_found_in_their_types() -> None:
    """Those that were listed by hand, whose values are a part of what rows depend on."""
    shared = {"topology.file", "npu.measured", "collective.measured"}
    shared |= {"network.file", "network.packets.file"}
    own = {
        "chakra": {"traces", "groups"},
        "astra1_text": {"file"},
        "astra_sim": {"traces", "system", "memory", "groups"},
        "repurposed": {"model", "samples"},
    }
    config = compose([]).config
    for kind, of in KINDS.items():
        given = {name: "x" for name, field in of.model_fields.items() if field.is_required()}
        named = {f"workload.{name}" for name in own.get(kind, ())}
        if kind in own:
            workload = of.from_plain(given | {"kind": kind})
            found = dict(config.model_copy(update={"workload": workload}).file_keys())
            assert found.keys() == shared | named
    searched = compose(["space.parameters={npu.measured: {values: [a.csv, b.csv]}}"]).config
    assert searched.files() == {"npu.measured=a.csv": "a.csv", "npu.measured=b.csv": "b.csv"}
