"""Studies message by message: as an axis, and for the best designs of a search by phases."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.split.search import recheck
from dimsweep.sweeper.run.loop import Results, StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.space.trials import Trial, Trials
from tests.support.studies import TINY, planned, run

SMALL = (
    "workload=all_reduce",
    "workload.parallel.tensor=1",
    "workload.layers=[{name: g, weight_grad: "
    "{duration: 0 ns, collective: all_reduce, size: 1 MB, group: data}}]",
)


def _names(overrides: Sequence[str]) -> bool:
    return any(word.startswith("study=") for word in overrides)


@pytest.fixture
def tiny(tmp_path: Path) -> object:
    def plan(*overrides: str, results: str = "results") -> StudyPlan:
        own = [word for word in TINY if not (word.startswith("study=") and _names(overrides))]
        return planned([*own, *overrides], tmp_path / results)

    return plan


# How exactly a design is simulated is no decision, unless a study says so.
SEARCHED = ("+space.parameters.fidelity={values: [phase, message]}", "roles={fidelity: decision}")


def refusal(tiny: object, *overrides: str) -> str:
    with pytest.raises(DimsweepError) as caught:
        tiny(*overrides)
    return str(caught.value)


def with_parameters(folder: Path, parameters: str) -> str:
    """TINY under another name, with further keys searched: those have dots in them."""
    file = folder / "tiny.yaml"
    text = Path("studies/libra_gpt3_4d.yaml").read_text()
    file.write_text(text.replace("space:", f"space:\n  parameters: {parameters}"))
    return f"study={file}"


def times(plan: StudyPlan, **where: object) -> list[int]:
    rows = load(plan.folder).to_pandas()
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows.sort_values("trial").time_ps.tolist()


def test_without_congestion_both_fidelities_agree_as_an_axis_of_the_grid(tiny) -> None:
    plan = tiny("+grid.fidelity=[phase,message]")
    by_phase, by_message = plan.study.cells
    assert by_phase.bound > 0
    assert by_message.bound is None  # what is proven is proven of the phase kernel
    run(plan)
    assert times(plan, fidelity="phase") == times(plan, fidelity="message")
    assert len(times(plan, fidelity="message")) == 6


def test_the_fidelity_may_be_searched(tiny) -> None:
    plan = tiny(*SEARCHED, "budget.trials=12")
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert set(rows.fidelity) == {"phase", "message"}
    assert (rows.state == "complete").all()


def test_the_best_are_looked_at_again(tiny) -> None:
    plan = tiny("recheck.top=3", "network.switching=store_and_forward")
    run(plan)
    rows = load(plan.folder).to_pandas()
    searched, again = rows[rows.origin != "recheck"], rows[rows.origin == "recheck"]
    assert len(searched) == 6 and set(searched.fidelity) == {"phase"}
    assert again.trial.tolist() == [6, 7, 8] and set(again.fidelity) == {"message"}
    # The three best, best first, with the splits they had.
    split = ["bandwidth_0_GBps", "bandwidth_1_GBps"]
    best = searched.drop_duplicates(split).sort_values("time_ps").head(3)
    assert again[split].to_numpy().tolist() == best[split].to_numpy().tolist()
    # Every phase on the switch is passed on late: congestion that the search did not see.
    assert (again.time_ps.to_numpy() > best.time_ps.to_numpy()).all()


def test_fewer_are_looked_at_in_each_further_fidelity(tiny) -> None:
    rungs = "recheck={top: [3, 2], fidelity: [flow, packet]}"
    plan = tiny(rungs, "budget.trials=8", *SMALL)
    run(plan)
    rows = load(plan.folder).to_pandas()
    again = rows[rows.origin == "recheck"].sort_values("trial")
    assert again.fidelity.tolist() == ["flow"] * 3 + ["packet"] * 2
    assert again.trial.tolist() == [8, 9, 10, 11, 12] and set(again.state) == {"complete"}
    split = ["bandwidth_0_GBps", "bandwidth_1_GBps"]
    by_flow = again[again.fidelity == "flow"].sort_values(["time_ps", "trial"])
    by_packet = again[again.fidelity == "packet"]
    assert by_packet[split].to_numpy().tolist() == by_flow[split].head(2).to_numpy().tolist()
    # Packets have headers and latencies of their own.
    assert (by_packet.time_ps.to_numpy() > by_flow.time_ps.head(2).to_numpy()).all()
    assert reproduce(plan.folder).differ == {}


def test_a_design_that_failed_when_it_was_looked_at_again_is_not_looked_at_further(
    tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of it that would make it better than the others."""
    plan = tiny("recheck={top: [3, 2], fidelity: [flow, packet]}", *SMALL)
    designs = [Trial(i, "random", (1e9 + i, 2e9)) for i in range(3)]
    values, asked = [[[math.nan], [3.0], [2.0]], [[1.0], [math.nan]]], list[Trials]()
    for search, found in zip(recheck(plan.cells[0], designs), values, strict=True):
        (work,) = search.ask()
        assert not work.is_own and not search.ask()
        asked.append(work.trials)
        search.tell([Results(work, np.array(found), np.empty((len(found), 0)), np.arange(3))])
    assert [[trial.bandwidth[0] - 1e9 for trial in each] for each in asked] == [[0, 1, 2], [2, 1]]
    assert [[trial.number for trial in each] for each in asked] == [[6, 7, 8], [9, 10]]


def test_looking_again_is_resumed_and_may_come_later(tiny) -> None:
    whole = tiny("recheck.top=3", results="whole")
    run(whole)
    run(tiny(results="parts"))
    run(tiny("recheck.top=1", results="parts"))
    rest = tiny("recheck.top=3", results="parts")
    progress = run(rest)
    assert progress.reused == 7
    assert load(rest.folder).equals(load(whole.folder))
    assert run(rest).engine_seconds == 0


def test_a_trial_that_cannot_finish_fails_alone(tiny, tmp_path: Path) -> None:
    """Messages travel in parts that fit half a buffer: with a small one they are too many."""
    plan = tiny(
        with_parameters(tmp_path, "{network.buffer: {values: [1 MB, 1 GB]}}"),
        "fidelity=message",
        "network.max_messages=2000",
        "topology.shape=Switch(4)_Switch(2)",
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    small = rows["network.buffer"] == "1 MB"
    assert set(rows[small].state) == {"failed"} and set(rows[~small].state) == {"complete"}
    assert rows[small].error.str.contains("network.max_messages").all()


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["recheck.top=2", "fidelity=message"], "recheck.top ... fidelity=phase"),
        (["recheck.top=-1"], "recheck.top ... -1; it must be 0 or more"),
        (
            ["recheck.top=2", *SEARCHED],
            "recheck.top ... fidelity=phase",
        ),
        (["fidelity=packets"], "'packets' ... phase, message, flow, packet"),
        (["fidelity=packet", "network.max_packets=10"], "network.max_packets ... about"),
        (
            ["fidelity=packet", *SMALL, "network.packets.buffer=70 kB"],
            "packets.buffer ... headroom",
        ),
        (
            ["fidelity=packet", *SMALL, "network.packets.buffer=[1 MB]"],
            "packets.buffer ... 1 values for",
        ),
        (["network.packets.buffer=[1 MB,[2 MB,3]]"], "network.packets.buffer[1][1]"),
        (["network.packets={kmin: 2 MB, kmax: 1 MB}"], "network.packets.kmin ... less than kmax"),
        (["network.packets.payload=1000"], "network.packets.payload"),
        (
            ["network.packets.transport=rdma"],
            "packets.transport ... 'rdma'",
        ),
        (
            ["network.packets.transport={kind: dcqcn, gian: 1}"],
            "packets.transport.gian ... did you",
        ),
        (
            ["network.packets.transport={kind: dcqcn, gain: 2}"],
            "packets.transport.gain ... 1 at most",
        ),
        (["network.packets.transport={kind: dcqcn, add: 2}"], "packets.transport.add ... unit"),
        (["network.packets={transport: swift, window: false}"], "network.packets.window ... swift"),
        (["recheck={top: [2, 3], fidelity: [flow, packet]}"], "recheck.top ... 2, 3"),
        (["recheck={top: 2, fidelity: [flow, packet]}"], "recheck.top ... 1 numbers for 2"),
        (["recheck={top: 2, fidelity: phase}"], "recheck.fidelity ... found by phases"),
        (["fidelity=message", "network.max_messages=10"], "network.max_messages"),
        (["recheck.top=2", "network.max_messages=10"], "network.max_messages"),
        (["network.fabric=[auto,clos]"], "network.fabric[1].levels ... needs a value"),
        (["network.fabric=[auto]"], "network.fabric ... 1 value for 2 dimensions"),
        (["network.fabric=torus"], "network.fabric ... 'torus'"),
        (["network.fabric={kind: mesh, leaf: 2}"], "network.fabric.leaf ... unknown key"),
        (
            ["fidelity=message", "network.fabric=[auto,{kind: clos, levels: 2, leaf: 3}]"],
            "network.fabric[1].leaf",
        ),
        (
            ["fidelity=message", "network.fabric=[{kind: clos, levels: 2, leaf: 2},auto]"],
            "network.fabric[0]",
        ),
        (["network.fabric=[auto,{kind: clos, levels: 2.5, leaf: 2}]"], "2.5 is not a whole number"),
        (["network.packet=4096"], "network.packet"),
        (["network.buffer=0 B"], "network.buffer"),
        (["network.window=0"], "network.window ... 0; it must be 1 or more"),
        (["network.routing=fastest"], "network.routing ... 'fastest'"),
        (
            ["fidelity=message", "network.routing=spray"],
            "network.routing ... a whole message takes one way ... fidelity=flow or packet",
        ),
        (["network.switching=magic"], "network.switching ... 'magic'"),
        (["network.file=nowhere.json"], "network.file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    tiny, overrides: list[str], told: str
) -> None:
    message = refusal(tiny, *overrides)
    assert all(part in message for part in told.split(" ... "))


def graph_file(folder: Path, bandwidth: str = "50 GB/s") -> Path:
    """Eight NPUs on one switch, as a file."""
    nodes = [{"id": i, "npu": i} for i in range(8)] + [{"id": "s"}]
    edges = [
        {"source": i, "target": "s", "bandwidth": bandwidth, "latency": "1 us"} for i in range(8)
    ]
    file = folder / "net.json"
    file.write_text(json.dumps({"directed": False, "nodes": nodes, "edges": edges}))
    return file


def test_a_split_that_reaches_no_link_of_a_file_is_refused(tiny, tmp_path: Path) -> None:
    file = graph_file(tmp_path)
    assert "so a split has no effect" in refusal(tiny, "fidelity=message", f"network.file={file}")
    other = "topology.shape=Ring(4)_Switch(4)"
    nothing = "space.bandwidth={total: null, max: null}"
    told = refusal(tiny, "fidelity=message", f"network.file={file}", nothing, other)
    assert "the network has 8 NPUs, the topology 16" in told


@pytest.mark.parametrize("split", ["total: 50 GB/s", "total: null, max: null, bisection: 1 TB/s"])
def test_nor_does_a_split_reach_a_graph_that_is_a_product(tiny, split: str) -> None:
    """Its bisection is that of its own links, and not the dimensions'."""
    same = (
        "network.generator={kind: fat_tree, npus: 8, radix: 8, bandwidth: 25 GB/s, latency: 1 us}"
    )
    own = ["topology.shape=Switch(8)", "topology.latency=1 us", "topology.bandwidth=25 GB/s"]
    assert "so a split has no effect" in refusal(tiny, *own, same, f"space.bandwidth={{{split}}}")


def test_another_content_of_a_file_is_another_study(tiny, tmp_path: Path) -> None:
    def plan(bandwidth: str) -> StudyPlan:
        file = graph_file(tmp_path, bandwidth)
        return tiny(
            "fidelity=message",
            f"network.file={file}",
            "space.bandwidth={total: null, max: null}",
            with_parameters(tmp_path, "{collective.chunks: {values: [1, 2]}}"),
        )

    slow = plan("50 GB/s")
    run(slow)
    fast = plan("100 GB/s")
    one = Trials.from_list([Trial(0, "known", None)])
    assert slow.cells[0].content.keys(one) != fast.cells[0].content.keys(one)
    with pytest.raises(DimsweepError, match=r"files\.network\.file"):
        run(fast)


def test_phases_take_a_graph_that_is_a_product_and_no_other() -> None:
    keys = ["workload=all_reduce", "topology.shape=Switch(16)", "topology.latency=1 us"]
    keys += ["topology.tiers=[]", "topology.bandwidth=25 GB/s", "collective.chunks=1"]
    alone = simulate(compose(keys).config)
    same = "{kind: fat_tree, npus: 16, radix: 16, bandwidth: 25 GB/s, latency: 1 us}"
    assert simulate(compose([*keys, f"network.generator={same}"]).config).time == alone.time
    other = "network.generator={kind: zcube, n: 4}"
    with pytest.raises(DimsweepError, match=r"product of Switch\(16\)") as error:
        simulate(compose([*keys, other]).config)
    assert "fidelity=flow" in error.value.hint
