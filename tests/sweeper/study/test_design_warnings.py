"""Design rules: true warnings, few of them, in the terminal, the ledger and the page."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.engine.units import format_bytes
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.cost import Purchase
from dimsweep.sweeper.draw.page import render
from dimsweep.sweeper.ledger.record import StudyRecord, read_study
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.places import list_studies
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.report import sections
from dimsweep.sweeper.report.remarks import idle_axes
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.study.idle import idle_keys
from dimsweep.sweeper.study.restore import load_design
from dimsweep.sweeper.study.rules import (
    answer_warnings,
    design_warnings,
    merge_warnings,
    provisioning_verdict,
)
from tests.support.studies import run

ROOT = Path(__file__).resolve().parents[3]
Small = Callable[..., StudyPlan]


MESSAGES = [  # few, so that ranks are looked at one by one in no time
    *("fidelity=message", "workload=all_reduce", "topology.shape=Switch(20)", "topology.tiers=[]"),
    *("topology.latency=1 us", "topology.bandwidth=1 GB/s", "collective=streamed"),
]

GRAPH = [*MESSAGES, "network.generator={kind: fat_tree, npus: 20, radix: 20, latency: 1 us}"]


def warnings(*overrides: str, searched: bool = False) -> list[str]:
    composed = compose(overrides)
    program = build_program(composed.config)
    turned = [*composed.overridden, *composed.set_in_study]
    # A key of a grid's study may matter to other cells than that of the configuration alone.
    found = [] if composed.config.grid else [*idle_keys(composed, program, turned).values()]
    return found + design_warnings(composed, program, turned, searched=searched)


def test_tiers_without_a_price_are_named_with_the_cost_file() -> None:
    (told,) = no_provisioning("topology.tiers=[chiplet,InterNode,node,InterPod]")
    assert "cost=libra_4d does not price InterNode, InterPod" in told
    assert no_provisioning("topology.tiers=[]") == [], "none are named, so none are meant"


SMALL_BUCKETS = [
    *("workload=gpt3_175b", "workload.model.layers=4", "workload.model.hidden=1024"),
    *("workload.model.heads=8", "workload.parallel={tensor: 1, pipeline: 1, data: rest}"),
    *("workload.plan.interleave=1", "workload.plan.batch=512", "topology.shape=Ring(512)"),
    *("topology.bandwidth=50 GB/s", "topology.latency=2 us", "topology.tiers=[]"),
    *("npu=peak_h100", "collective=streamed", "npu.memory=null"),
    "workload.plan.sequence_parallel=false",
]


def test_buckets_whose_hops_last_longer_than_their_bytes() -> None:
    """2 x 511 hops of 2 us, and 25 MB over 50 GB/s, which an all-reduce sends twice."""
    (told,) = (each for each in warnings(*SMALL_BUCKETS) if "bucket" in each)
    assert "a bucket of 25 MB spends 2.044 ms on hops and 998.047 us on bytes" in told
    assert "plan.bucket=51.2 MB" in told
    for key in ("bucket=52 MB", "stack=deepspeed"):
        found = warnings(*SMALL_BUCKETS, f"workload.plan.{key}")
        assert not any("bucket of" in each for each in found), key


def test_a_plan_that_barely_fits_its_memory() -> None:
    base = ("workload=llama3_8b", "workload.model.layers=16", "cluster=dgx_h100", "nodes=1")
    need = build_program(compose(base).config).workload.footprint
    assert need is not None and need.reserved == pytest.approx(need.total / 0.85)
    for memory, told in ((1.01 * need.total, 1), (1.01 * need.reserved, 0)):
        found = [each for each in warnings(*base, f"npu.memory={memory:.0f} B") if "cache" in each]
        assert len(found) == told
    unknown = warnings(
        *base, f"npu.memory={1.01 * need.total:.0f} B", "npu=peak_h100", "collective.gpu=h100"
    )
    assert not any("cache" in each for each in unknown)


def test_headroom_refuses_what_barely_fits() -> None:
    base = ("workload=llama3_8b", "workload.model.layers=16", "cluster=dgx_h100", "nodes=1")
    need = build_program(compose(base).config).workload.footprint
    assert need is not None
    memory = f"npu.memory={1.01 * need.total:.0f} B"
    build_program(compose([*base, memory, "npu.headroom=0.005"]).config)
    with pytest.raises(InfeasibleError, match=r"headroom leaves 0\.15") as error:
        build_program(compose([*base, memory, "npu.headroom=0.15"]).config)
    assert error.value.where == "npu.memory"
    with pytest.raises(DimsweepError) as wrong:
        build_program(compose([*base, "npu.headroom=1"]).config)
    assert str(wrong.value.where).startswith("npu.headroom (in the override")


def test_a_best_design_that_barely_fits_is_marked(tmp_path: Path) -> None:
    """The terminal, the page and the rows say what it holds, and what may be reserved for it."""
    base = ("workload=llama3_8b", "workload.model.layers=2", "cluster=dgx_h100", "nodes=1")
    need = build_program(compose(base).config).workload.footprint
    assert need is not None
    for memory, marked in ((1.01 * need.total, True), (1.01 * need.reserved, False)):
        words = [
            *base,
            f"npu.memory={memory:.0f} B",
            "what_if=null",
            "name=m",
            "grid={collective.chunks: [4]}",
        ]
        plan = plan_study(compose([*words, f"results={tmp_path / str(marked)}"]))
        run(plan)
        report = build_report(load(plan.folder).to_pandas(), plan.study)
        (found,) = report.found
        assert found.best["memory_bytes"] == pytest.approx(need.total)
        assert found.best["memory_reserved_bytes"] == pytest.approx(need.reserved)
        (sheet,) = sections.tabulate_time_and_cost(found)
        lines = {row[0]: row[1] for row in sheet.rows}
        assert lines["memory of the fullest NPU"] == format_bytes(need.total)
        assert lines["  PyTorch may reserve"] == format_bytes(need.reserved)
        assert any("npu.headroom" in text for text in report.notes) == marked


def test_a_report_applies_the_rules_to_its_answer(small: Small) -> None:
    plan = small("what_if=null", "collective.order=baseline")
    run(plan)
    study = plan.study.model_copy(update={"warnings": ("before",)})
    report = build_report(load(plan.folder).to_pandas(), study)
    ((cell, row),) = report.chosen
    config = load_design(study, cell.cell, row)
    found = answer_warnings(config, build_program(config), is_proven=cell.is_proven)
    assert report.rule_warnings == found
    assert report.remarks[: len(found)] == found and "before" in report.remarks[-1]


PLAN = ("workload=megatron_22b", "topology=dgx_a100", "topology.shape=Switch(8)_Switch(2)")


@pytest.mark.parametrize(
    ("parallel", "told"),
    [
        (
            "workload.parallel={tensor:4}",
            "keeps data unless you add '~workload.parallel.data'",
        ),
        ("workload.parallel={data:2,tensor:8}", "data: 2}: a map is merged"),
        ("workload.parallel={tensor:4,data:rest}", ""),
        ("workload.parallel.tensor=4", ""),
    ],
)
def test_axes_that_a_map_keeps_are_told(parallel: str, told: str) -> None:
    small = ("workload.plan.batch=16", "workload.model.layers=2", "collective=streamed")
    found = [text for text in warnings(*PLAN, *small, parallel) if "workload.parallel" in text]
    assert len(found) == bool(told)
    assert all(told in text for text in found)


def test_switches_without_a_price_are_named() -> None:
    """Whatever is dropped from the cost is said."""
    shape = "topology.shape=Switch(4)_FullyConnected(8)_Ring(4)_Switch(32)"
    (told,) = no_provisioning(shape)
    assert "cost.tiers.chiplet has no price of a switch in cost=libra_4d" in told
    assert "dimension 0: Switch(4) cost nothing" in told


CLUSTERS = {  # topology -> NPUs, prices, USD and watts of an NPU with its network, roughly
    "dgx_h100": ("h100", "dgx_h100", 45_000, 1_400),
    "dgx_b200": ("b200", "dgx_b200", 74_000, 2_000),
    "gb200_nvl72": ("b200", "gb200_nvl72", 48_000, 1_750),
    "rail_optimised": ("h100", "dgx_h100", 45_000, 1_400),
    "tpu_v5p": ("tpu_v5p", "illustrative", None, None),
    "alps": ("h100", "illustrative", 28_000, 1_320),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_real_clusters_have_links_prices_and_watts(name: str) -> None:
    npu, cost, usd, watts = CLUSTERS[name]
    config = compose([f"topology={name}", f"npu={npu}", f"cost={cost}"]).config
    topology = config.topology.build()
    bandwidth = np.array([dim.bandwidth for dim in topology.dims])
    bought = Purchase(config.cost, topology)
    for built, each in (
        (bought.prices(), usd),
        (bought.watts(), watts),
    ):
        assert (built is None) == (each is None)
        if built is not None:
            assert built.cost(bandwidth) / topology.n_npus == pytest.approx(each, rel=0.05)


@pytest.mark.parametrize("cost", ["libra_3d", "libra_4d", "illustrative"])
def test_every_cost_file_prices_the_preset_of_real_nodes(cost: str) -> None:
    composed = compose(["topology=dgx_a100", "workload=gpt3_175b", f"cost={cost}"])
    assert Purchase(composed.config.cost, composed.config.topology.build()).prices() is not None


def no_provisioning(*overrides: str) -> list[str]:
    return [text for text in warnings(*overrides) if "-provisioned" not in text]


@pytest.mark.long
@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["collective.order=themis", "workload=turing_nlg_libra"], []),
        (
            ["topology=one_switch", "collective.order=themis"],
            ["order has no effect: baseline gives the same simulation", "chunks only"],
        ),
        (["topology=one_switch", "topology.latency=0 ns"], ["latency is 0 in every"]),
        (
            [*GRAPH, "topology.latency=0 ns"],
            ["topology.bandwidth has no effect", "topology.latency"],
        ),
        (["topology=one_switch", "collective=streamed"], []),
        (["collective.queue=priority"], ["collective.queue=priority gives the same time"]),
        (["collective.queue=lifo"], []),
        (["npu=h100", "npu.flops=9 TFLOP/s"], ["npu has no effect", "npu.flops has no effect"]),
        (["npu.reduce_bandwidth=900 GB/s"], []),
        (["network.packet=4 KiB"], ["network.packet has no effect"]),
        (
            ["cluster=dgx_a100", "workload=resnet50", "network=clos_half"],
            ["dimension 1: Switch(128) 1/2 of its bandwidth"],
        ),
        (MESSAGES, []),
        ([*MESSAGES, "network.seed=3"], ["network.seed has no effect"]),
        (
            [*MESSAGES, "network.packets.pmax=0.5"],
            ["pmax has no effect: 0.2 gives the same simulation"],
        ),
        ([*MESSAGES, "network.seed=3", "network.routing=ecmp"], ["seed", "routing"]),  # one way
        (
            [*MESSAGES, "network=wafer_mesh"],
            ["topology.bandwidth has no", "y has no effect on times"],
        ),
        (["profile=libra"], []),
        (["topology.latency=0 ns"], ["latency is 0 in every dimension"]),
        (["topology.latency=[0 ns,1 us,1 us,1 us]"], ["latency is 0 in dimension 0: Ring(4)"]),
        (["topology.latency=[1 us,1 us,2 ms,1 us]"], ["2 ms per hop in dimension 2: Ring(4)"]),
        (["topology.bandwidth=11 TB/s"], ["11 TB/s per NPU"] * 4),
        (["topology.bandwidth=[1 TB/s,500 GB/s,200 GB/s,99 MB/s]"], ["less than one Ethernet"]),
        (["topology.bandwidth=[1 TB/s,500 GB/s,200 GB/s,400 GB/s]"], ["did you mean 400 Gb/s?"]),
        (["topology.bandwidth=[1 TB/s,500 GB/s,200 GB/s,400 Gb/s]"], []),
        (["topology.bandwidth=[400 GB/s,400 GB/s,200 GB/s,50 GB/s]"], []),  # no NICs there
        (
            ["topology.bandwidth=[300 GB/s,100 GiB/s,60 GB/s,20 GB/s]"],
            ["100 GiB/s is a binary unit"],
        ),
        (["topology.bandwidth=[300 GiB/s,100 GiB/s,60 GiB/s,20 GiB/s]"], []),
        (["workload=gpt3_13b", "workload.plan.bucket=25 Mb"], ["25 Mb is in bits"]),
        (["workload=gpt3_13b"], []),
    ],
)
def test_each_rule(overrides: list[str], expected: list[str]) -> None:
    found = no_provisioning(*overrides)
    assert len(found) == len(expected), found
    for text, part in zip(found, expected, strict=True):
        assert part in text


def test_following_the_advice_silences_it() -> None:
    """What would cost time, or save none, is no advice: the equal split's tensor group has 1.71
    times just enough in dimension 1, which its data group needs."""
    (over,) = warnings()
    assert over.startswith("data: dimension 3: Switch(32) is over-provisioned 28.9")
    assert "with 4.3248 GB/s an iteration would take 0.1% longer" in over
    (next_one,) = warnings("topology.bandwidth=[125 GB/s,125 GB/s,125 GB/s,4.3248 GB/s]")
    assert "dimension 2: Ring(4) is over-provisioned 9.33" in next_one
    assert warnings("topology.bandwidth=[125 GB/s,125 GB/s,13.3929 GB/s,4.3248 GB/s]") == []
    assert warnings("collective.order=themis") == []
    split = "topology.bandwidth=[400 GB/s,{} GB/s,60 GB/s,19 GB/s]"
    narrow = warnings(split.format(10))[0]
    assert narrow.startswith("tensor: dimension 1: FullyConnected(8) is under-provisioned 23.3")
    assert "in any order of dimensions: with 233.333 GB/s an iteration would take" in narrow
    less = float(re.findall(r"take ([\d.]+)% less", narrow)[0]) / 100
    before, after = (simulate(compose([split.format(each)]).config).time for each in (10, 233.3334))
    assert 1 - after / before == pytest.approx(less, abs=6e-4)


def test_no_bandwidths_are_judged_that_are_not_used() -> None:
    assert warnings("topology.bandwidth=11 TB/s", searched=True) == []


def test_bandwidth_without_traffic() -> None:
    """Replicas that serve have nothing to tell each other; one NPU has nobody to tell."""
    words = ["workload=llama3_8b", "npu=h100", "cost=dgx_h100", "collective=streamed"]
    words += ["workload.plan={task: prefill, batch: 4, micro_batches: null, zero: 0}"]
    words += ["workload.parallel={tensor: 8, data: rest}", "topology.latency=1 us"]
    words += ["topology.shape=Switch(8)_Ring(2)_Ring(1)", "topology.tiers=[package,pod,pod]"]
    words += ["topology.bandwidth=[450 GB/s,10 GB/s,5 GB/s]"]
    assert [each for each in no_provisioning(*words) if "no traffic" in each] == [
        "dimension 1: Ring(2) carries no traffic, but its bandwidth costs 4.000 k USD"
    ]
    assert [each[:20] for each in warnings(*words, searched=True) if "no traffic" in each] == [
        "dimension 1: Ring(2)",
        "dimension 2: Ring(1)",
    ]


@pytest.mark.parametrize(
    ("provision", "expected"),
    [(1.0, "just enough"), (1.09, "just enough"), (0.92, "just enough"), (1.2, "over-provisioned"),
     (0.8, "under-provisioned")],
)  # fmt: skip
def test_verdicts(provision: float, expected: str) -> None:
    assert provisioning_verdict(provision) == expected


@pytest.mark.long
@pytest.mark.parametrize("study", list_studies())
def test_committed_studies_have_no_warnings(study: str) -> None:
    config = compose([f"study={study}"]).config
    if config.space.network is not None or "network.generator" in config.grid:
        return  # the configuration itself is none of its cells
    searched = config.space.bandwidth.is_searched or "space.bandwidth" in config.grid
    told = warnings(f"study={study}", searched=searched)
    assert [text for text in told if not (is_published(study) and text_of_a_paper(text))] == []


def is_published(study: str) -> bool:
    """Whether a page on a published study names it."""
    return re.search(rf"\b{study}\b", pages_on_studies()) is not None


@cache
def pages_on_studies() -> str:
    return "\n".join(page.read_text() for page in (ROOT / "docs" / "studies").glob("*.md"))


def text_of_a_paper(text: str) -> bool:
    """Whether a warning is about what a paper had, which is simulated as it was: how its dimensions
    were provisioned, that its NPUs compute at their peak, that formulas have no latency; and that
    utilisation is told against a bandwidth where links are told level by level."""
    taken = ("npu computes at its peak", "topology.latency is 0 in every dimension")
    at_levels = text.endswith("network.levels gives the links")
    return "-provisioned" in text or text.startswith(taken) or at_levels


def test_cells_share_their_warnings() -> None:
    assert merge_warnings([["a", "b"], ["a"]]) == ["a", "b (in 1 of 2 cells)"]
    assert merge_warnings([]) == []


@pytest.mark.long
def test_the_ledger_and_the_page_have_them(small: Small) -> None:
    plan = small("network.packet=4 KiB", "search=random")
    run(plan)
    study, rows = read_study(plan.folder), load(plan.folder).to_pandas()
    assert (
        list(study.warnings)
        == list(plan.study.warnings)
        == ["network.packet has no effect: fidelity=phase simulates no links"]
    )
    page = render(build_report(rows, study))
    assert "network.packet has no effect" in page


@pytest.mark.long
def test_axes_that_made_no_difference(small: Small) -> None:
    plan = small(
        "search=random",
        "budget.trials=10",
        "+grid={collective.queue: [fifo, priority], collective.chunks: [4, 8]}",
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert idle_axes(rows, plan.study) == ["collective.queue"]
    page = render(build_report(rows, plan.study))
    assert "collective.queue made no difference" in page


def test_nothing_is_said_of_axes_that_were_not_compared() -> None:
    study = StudyRecord.model_construct(grid=("a",), parameters=("b",))
    rows = pd.DataFrame(
        {
            "state": "complete",
            "origin": "random",
            "bandwidth_0_GBps": [1.0, 1.0, 2.0],
            "a": ["x", "y", "y"],
            "b": ["1", "2", "1"],
            "time_ps": [5, 5, 5],
            "cost_usd": None,
        }
    )
    assert idle_axes(rows, study) == []
    assert idle_axes(rows.assign(b="1"), study) == ["a"]
    assert idle_axes(rows.assign(b="1", time_ps=[5, 6, 5]), study) == []
    assert idle_axes(rows.assign(b="1", usd_per_token=[1.0, 2.0, 1.0]), study) == []


def test_the_first_of_equal_ways_is_a_choice() -> None:
    """Of levels with several spines, nothing else said; not of one spine, of a generated tree,
    whose switches hash, nor of a product."""
    own = ["workload=all_reduce", "topology.shape=Switch(16)", "topology.tiers=[]", "fidelity=flow"]
    several, one = (
        "network.levels=[{switch: leaf, share: 8, bandwidth: 1 GB/s, latency: 1 us}, "
        f"{{switch: spine, below: leaf, count: {count}, bandwidth: 1 GB/s, latency: 1 us}}]"
        for count in (2, 1)
    )
    tree = "network.generator={kind: fat_tree, npus: 16, radix: 8, bandwidth: 1 GB/s}"
    own += ["topology.latency=1 us", "topology.bandwidth=1 GB/s", "collective=streamed"]
    told = "network.routing=auto takes the first of equally short paths"
    assert any(each.startswith(told) for each in warnings(*own, several))
    for words in ([one], [several, "network.routing=shortest"], [tree], []):
        assert not any(each.startswith(told) for each in warnings(*own, *words))


@pytest.mark.parametrize(
    "words",
    [
        ("collective=default",),
        (
            *("workload=gpt3_13b", "npu=a100", "topology.shape=Switch(8)"),
            *("topology.bandwidth=300 GB/s", "topology.latency=1 us", "topology.tiers=[]"),
            "workload.plan.batch=64",
        ),
    ],
)
def test_a_group_that_is_set_to_its_default_is_no_idle_key(words: tuple[str, ...]) -> None:
    """Without the override the very same option is chosen."""
    assert not [text for text in warnings(*words) if "has no effect" in text]
