"""What measured runs say of a simulated time: the table, what it covers, and what it does not."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from sweeper import load
from sweeper.build.evidence import (
    LEAST,
    SOFTWARE,
    TABLE,
    Evidence,
    _no_interval,
    evidence,
    known_runs,
    table,
)
from sweeper.cli.main import main
from sweeper.cli.sweep import sweep_study
from sweeper.config.compose import compose

SMALL = ("workload=llama3_8b", "workload.model.layers=2", "cluster=dgx_h100", "nodes=8")
A100 = ("workload=llama3_8b", "workload.model.layers=2", "cluster=dgx_a100", "nodes=8")


def found(*overrides: str, of: Sequence[str] = SMALL) -> Evidence:
    return evidence(compose([*of, *overrides]).config)


# --- the table ----------------------------------------------------------------------------------


def test_the_table_is_what_the_rows_give(tmp_path: Path) -> None:
    """The rows of a small table are simulated again; `verify clusters --evidence` wrote all."""
    assert TABLE.read_text() == table(known_runs())
    file = tmp_path / "evidence.csv"
    main(["verify", "clusters", "moe_and_automodel_h100", "--evidence", str(file)])
    lines = Counter(file.read_text().splitlines())
    assert sum(lines.values()) == 1 + 3 and lines <= Counter(TABLE.read_text().splitlines())


# --- what it says -------------------------------------------------------------------------------


def test_an_interval_is_that_of_runs_alike_that_nothing_was_fitted_to() -> None:
    said = found(of=A100)
    alike = [
        run
        for run in known_runs()
        if (run.facts.gpu, run.facts.kind, run.facts.precision) == ("A100", "dense", "bf16")
        and run.facts.efficiency == 0.91
        and run.facts.between == 25e9
        and run.facts.gpus >= 64
    ]
    left_out = [run for run in alike if not run.fitted]
    assert list(said.runs) == alike and list(said.left_out) == left_out
    assert len(alike) > len(left_out) >= LEAST, "of both kinds"
    low, high = np.quantile([run.error for run in left_out], [0.1, 0.9])
    assert said.ends == pytest.approx((low, high))
    assert low < 0 < high and -low != pytest.approx(high), "not symmetric"
    n, more = len(left_out), len(alike) - len(left_out)
    assert f"({n} measured runs of " in str(said)
    assert str(said).endswith(
        f" A100, to none of which the model was fitted; it was fitted to {more} more)"
    )


def test_runs_that_were_all_fitted_give_no_interval() -> None:
    """Before, "-9 to +3%" of 13 runs, with "constants were fitted to 13 of them" behind it."""
    said = found()
    assert len(said.runs) >= LEAST and all(run.fitted for run in said.runs)
    assert said.ends is None and said.interval == ""
    told = f"{len(said.runs)} measured runs like this one, all of which the model was fitted to"
    assert str(said) == f"{told}: no interval"


def test_too_few_runs_beside_fitted_ones_give_no_interval() -> None:
    said = found("nodes=128", of=A100)
    assert 0 < len(said.left_out) < LEAST and said.ends is None
    assert str(said).startswith(f"{len(said.runs)} measured run") and "no interval" in str(said)
    (one, *_), few = found(of=A100).left_out, LEAST - 1
    own = replace(one.facts, **{name: getattr(one.facts, name)[:1] for name in SOFTWARE})
    runs = [one] * few + [replace(one, fitted=True)] * 3
    told = f"{few + 3} measured runs like this one, 3 of which the model was fitted to, "
    assert _no_interval(own, runs) == f"{told}and an interval takes {LEAST} others"
    assert _no_interval(own, [*runs, one]) == ""


def test_a_stack_that_only_fitted_runs_had_is_not_covered_by_others() -> None:
    """The interval is of runs that were left out, so these must have had such a stack."""
    runs = known_runs()
    for run in (each for each in runs if each.fitted and each.facts.kind == "dense"):
        own = replace(run.facts, **{name: getattr(run.facts, name)[:1] for name in SOFTWARE})
        others = [replace(each, facts=replace(own, launch=(9.0,))) for each in [run] * LEAST]
        left_out = [replace(each, fitted=False) for each in others]
        assert "do not cover it (npu.launch is " in _no_interval(own, [run, *left_out])
        assert _no_interval(own, [run, *[replace(run, fitted=False)] * LEAST]) == ""
        break


def test_fewer_runs_speak_for_more_gpus() -> None:
    sizes = [len(found(f"nodes={nodes}").runs) for nodes in (8, 16, 128)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[1] >= LEAST and sizes[2] == 0


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["npu.efficiency=0.3"], "npu.efficiency is 0.3, and H100 had 0.65 or 0.91"),
        (["npu.kernels=a100"], "npu.kernels is a100, and H100 ran those of h100"),
        (["npu.memory_bandwidth=9 TB/s"], "npu.memory_bandwidth is 9 TB/s"),
        (["npu.launch=1 ms"], "npu.launch is 1 ms, and what was measured had 12 us to 110 us"),
        (["npu.memory_efficiency=0.1"], "npu.memory_efficiency is 0.1"),
        (["topology.bandwidth=[450 GB/s,0.5 GB/s]"], "links of 500 MB/s between nodes"),
        (["topology.bandwidth=[4 TB/s,50 GB/s]"], "links of 4 TB/s inside a node"),
        (
            ["topology.shape=Switch(64)_Switch(4)", "nodes=null"],
            "nodes of 64 GPUs, and 8 were measured",
        ),
        (["topology.shape=Ring(8)_Switch(8)"], "the network's dimensions are not NVLink"),
        (["nodes=16384"], "131,072 GPUs, and no such run was on more than 512 H100"),
        (["workload.plan.precision=nvfp4", "npu.relative_time={nvfp4: 0.3}"], "a dense model in"),
        (["collective=streamed"], "measured collectives were NCCL's"),
        (["npu=b200"], "no machine has the network of H100 or H200 and the NPU of B200"),
        (
            ["npu=h200", "workload.plan.precision=fp8"],
            "1 measured run like this one, and an interval takes 5",
        ),
        (["npu=peak_h100", "collective.gpu=h100"], "npu.kernels is null, and H100 ran those"),
        (["cluster=alps", "nodes=16"], "nothing was measured on GH200"),
        (["cluster=tpu_v5p", "nodes=16"], "nothing was measured on TPU v5p"),
        (["cluster=gb200_nvl72", "nodes=1"], "a dense model in bf16 was not measured on GB200"),
        (["topology=libra_4d", "cluster=none", "nodes=null"], "the network is that of no machine"),
        (["workload.plan.task=prefill"], "training was measured, no prefill"),
        (
            ["workload=resnet50"],
            "only transformers with a plan were measured, no lists of layers and no traces",
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
    said = evidence(compose([*own, *overrides]).config)
    assert said.ends is None and said.reason.startswith(reason), said.reason
    if not said.runs:
        assert str(said) == f"no measured run covers this: {said.reason}"


def test_a_stack_between_those_that_were_measured_is_covered() -> None:
    assert found("npu.launch=50 us", "npu.memory_efficiency=0.6").runs
    assert all(len(getattr(run.facts, name)) >= 1 for run in known_runs() for name in SOFTWARE)


# --- where it is shown --------------------------------------------------------------------------


def test_simulate_states_it_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *A100]) == 0
    lines = capsys.readouterr().out.splitlines()
    (iteration,) = (line for line in lines if line.startswith(" iteration"))
    (sure,) = (line for line in lines if line.startswith("how sure is the model"))
    assert "±" not in iteration and "measured runs of" in sure
    assert main(["simulate", *SMALL]) == 0
    assert "all of which the model was fitted to: no interval" in capsys.readouterr().out
    assert main(["simulate", *SMALL, "npu.efficiency=0.3"]) == 0
    assert "no measured run covers this: npu.efficiency is 0.3" in capsys.readouterr().out


def test_json_has_the_evidence_of_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for overrides in (A100, SMALL, (*SMALL, "npu.efficiency=0.3")):
        assert main(["simulate", "--json", *overrides]) == 0
        row = json.loads(capsys.readouterr().out)
        assert "time_error" not in row
        told.append(row["evidence"])
    some, fitted, none = told
    said = found(of=A100)
    assert said.ends is not None and some["interval"] == list(said.ends)
    assert (some["share"], some["reason"]) == (0.8, None)
    assert (some["runs"], some["fitted"]) == (
        len(said.left_out),
        len(said.runs) - len(said.left_out),
    )
    assert some["sources"] == sorted({run.source for run in said.runs})
    assert fitted["interval"] is None and (fitted["runs"], fitted["fitted"]) == (
        0,
        len(found().runs),
    )
    assert fitted["reason"].endswith("all of which the model was fitted to")
    assert none["interval"] is None and (none["runs"], none["fitted"], none["sources"]) == (
        0,
        0,
        [],
    )


def test_a_study_is_sure_of_its_search_and_of_its_model_apart(tmp_path: Path) -> None:
    """The evidence is that of the best design, not of the configuration."""
    overrides = [*A100, f"results={tmp_path}", "executor=inline", "budget.trials=4"]
    for most, model in (("30 GB/s", "measured runs of"), ("900 GB/s", "no measured run covers")):
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
    assert f"{said.interval} off measured ones ({said.basis})" in page and str(found()) in page
