"""What measured runs say of a simulated time: the table, what it covers, and what it does not."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from dimsweep import load
from dimsweep.sweeper.calibrate.bands import SHARES
from dimsweep.sweeper.calibrate.evidence import (
    TABLE,
    Evidence,
    collect_facts,
    compute_confidence,
    find_evidence,
    format_table,
    load_known_errors,
    load_runs,
)
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.cli.sweep import sweep_study
from dimsweep.sweeper.config.compose import compose

SMALL = ("workload=llama3_8b", "workload.model.layers=2", "cluster=dgx_h100", "nodes=8")
A100 = ("workload=llama3_8b", "workload.model.layers=2", "cluster=dgx_a100", "nodes=8")


def found(*overrides: str, of: Sequence[str] = SMALL) -> Evidence:
    return find_evidence(compose([*of, *overrides]).config)


# --- the table ----------------------------------------------------------------------------------


def test_the_table_is_what_the_rows_give(tmp_path: Path) -> None:
    """The rows of a small table are simulated again; `verify clusters --evidence` wrote all."""
    runs = load_runs()
    assert TABLE.read_text() == format_table(load_known_errors().bands, runs)
    file = tmp_path / "evidence.csv"
    main(["verify", "clusters", "moe_and_automodel_h100", "--evidence", str(file)])
    lines = Counter(file.read_text().splitlines()[1:])
    assert sum(lines.values()) == 1 + 3 and lines <= Counter(TABLE.read_text().splitlines())


# --- what it says -------------------------------------------------------------------------------


def test_intervals_are_those_of_the_model_of_errors() -> None:
    said = found(of=A100)
    assert said.band == load_known_errors().band(
        collect_facts(compose(A100).config, "A100").place()
    )
    half, most = (said.band.relative_ends(share) for share in SHARES)
    assert most[0] < half[0] < half[1] < most[1]
    alike = [
        run
        for run in load_runs()
        if (run.facts.gpu, run.facts.kind, run.facts.precision) == ("A100", "dense", "bf16")
    ]
    assert list(said.runs) == alike
    assert said.sources == len({run.origin for run in load_runs()})
    assert all(said.measured_within(share) in str(said) for share in SHARES)
    low, high = (10 / (1 + end) for end in reversed(most))
    assert said.expected(10.0) == f"{low:.2f} to {high:.1f} s"


def test_a_document_that_was_fitted_has_the_errors_that_others_see() -> None:
    """Its own would say how well it was fitted, and none where nobody else judges it."""
    runs = load_runs()
    assert any(run.fitted and not run.alone for run in runs)
    assert all(run.fitted for run in runs if run.alone)
    assert all(run.place.free is run.alone for run in runs)


def test_a_stack_between_those_that_were_measured_is_covered() -> None:
    assert found("npu.launch=50 us", "npu.memory_efficiency=0.6").band == found().band


def test_how_sure_a_difference_is() -> None:
    one, other = (compose([*SMALL, f"workload.plan.micro_batch={n}"]).config for n in (1, 2))
    sure = [compute_confidence(difference, one, other) for difference in (0.0, 0.01, 0.04, 0.5)]
    assert sure[0] == pytest.approx(0.5) and sure == sorted(sure) and sure[-1] > 0.97
    elsewhere = compose([*A100, "workload.plan.micro_batch=2"]).config
    assert compute_confidence(0.04, one, elsewhere) < sure[2]
    assert compute_confidence(0.04, one, compose([*SMALL, "npu.efficiency=0.3"]).config) is None


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["npu.efficiency=0.3"], "npu.efficiency is 0.3; "),
        (["npu.kernels=a100"], "npu.kernels is a100; measured H100 runs use h100"),
        (["npu.memory_bandwidth=9 TB/s"], "npu.memory_bandwidth is 9 TB/s"),
        (["npu.launch=1 ms"], "npu.launch is 1 ms; "),
        (["npu.memory_efficiency=0.1"], "npu.memory_efficiency is 0.1"),
        (["npu.overlap=0.9"], "npu.overlap is 0.9; measured runs are compared at 1"),
        (["topology.bandwidth=[450 GB/s,0.5 GB/s]"], "links between nodes have 500 MB/s"),
        (["topology.bandwidth=[4 TB/s,50 GB/s]"], "links inside a node have 4 TB/s"),
        (
            ["topology.shape=Switch(64)_Switch(4)", "nodes=null"],
            "this has nodes of 64 GPUs; ",
        ),
        (["topology.shape=Ring(8)_Switch(8)", "nodes=null"], "the network's blocks are Ring"),
        (["nodes=16384"], "this has 131,072 GPUs; "),
        (
            ["workload.plan.precision=nvfp4", "npu.relative_time={nvfp4: 0.3}"],
            "no measured run uses nvfp4",
        ),
        (["collective=streamed"], "measured runs on "),
        (["npu=b200"], "no machine combines the network of H100 or H200 with the NPU of B200"),
        (
            ["npu=peak_h100", "collective.gpu=h100"],
            "npu.kernels is null; measured H100 runs use h100",
        ),
        (["cluster=alps", "nodes=16"], "measured runs on "),
        (["cluster=tpu_v5p", "nodes=16"], "no measured run is on TPU v5p"),
        (
            ["topology=libra_4d", "cluster=none", "nodes=null"],
            "the network is not one of a known machine",
        ),
        (
            ["network.degrade=[{npu: 3, speed: 90 %}]"],
            "no measured run has slower or failed parts",
        ),
        (["workload.plan.task=prefill"], "measured runs are training; this task is prefill"),
        (
            ["workload=resnet50"],
            "measured runs train transformers with a plan",
        ),
    ],
)
def test_nothing_is_said_of_what_was_not_measured_or_is_overridden(
    overrides: list[str], reason: str
) -> None:
    """Before, a constant of the preset was printed for all of these."""
    own = [o for o in SMALL if o.split("=")[0] not in {x.split("=")[0] for x in overrides}]
    if overrides[0].startswith("workload="):
        own.remove("workload.model.layers=2")
    said = find_evidence(compose([*own, *overrides]).config)
    assert said.band is None and said.reason.startswith(reason), said.reason
    assert str(said) == f"no measured run covers this: {said.reason}"


# --- where it is shown --------------------------------------------------------------------------


def test_simulate_states_it_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *A100]) == 0
    lines = capsys.readouterr().out.splitlines()
    (iteration,) = (line for line in lines if line.startswith(" iteration"))
    (sure,) = (line for line in lines if line.startswith("how sure is the model"))
    assert "±" not in iteration and "each left out in turn" in sure
    assert main(["simulate", *SMALL, "npu.efficiency=0.3"]) == 0
    assert "no measured run covers this: npu.efficiency is 0.3" in capsys.readouterr().out


def test_json_has_the_evidence_of_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for overrides in (A100, (*SMALL, "npu.efficiency=0.3")):
        assert main(["simulate", "--json", *overrides]) == 0
        told.append(json.loads(capsys.readouterr().out)["evidence"])
    some, none = told
    said = found(of=A100)
    assert some["intervals"] == {
        "0.5": list(said.band.relative_ends(0.5)),
        "0.9": list(said.band.relative_ends(0.9)),
    }
    assert (some["runs"], some["reason"]) == (len(said.runs), None)
    assert some["fitted"] == sum(run.fitted for run in said.runs)
    assert some["sources"] == sorted({run.source for run in said.runs})
    assert none["intervals"] is None and (none["runs"], none["sources"]) == (0, [])
    assert none["reason"].startswith("npu.efficiency is 0.3")


def test_a_study_is_sure_of_its_search_and_of_its_model_apart(tmp_path: Path) -> None:
    """The evidence is that of the best design, not of the configuration."""
    overrides = [*A100, f"results={tmp_path}", "executor=inline", "budget.trials=4"]
    for most, model in (
        ("30 GB/s", "each left out in turn"),
        ("900 GB/s", "no measured run covers"),
    ):
        split = ["search=descent", f"space.bandwidth.max=[300 GB/s,{most}]", f"name=sure{most[:2]}"]
        assert sweep_study(compose([*overrides, *split]), Console(quiet=True)) == 0
        folder = tmp_path / f"sure{most[:2]}"
        assert "time_error" not in load(folder).to_pandas().columns
        page = (folder / "report" / "report.html").read_text()
        search, _, rest = page.partition("How sure is the model")
        assert "How sure is the search" in search and model in rest[:600]
        assert "measured" not in search[search.index("How sure is the search") :]


def test_the_page_on_accuracy_quotes_what_is_said() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs" / "accuracy.md").read_text().split())
    said = found(of=A100)
    assert str(said) in page
