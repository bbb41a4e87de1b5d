"""What a configuration says of NPUs that are another kind than the rest."""

from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.calibrate.evidence import find_evidence
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.study.bound import minimum_seconds
from tests.support.refused import refused

# A GPT-3 of 8 layers in two stages, each on a node of 8: H100s, and A100s.
GPT = [
    *("workload=gpt3_175b", "workload.model.layers=8", "workload.plan.interleave=1", "npu=h100"),
    *("workload.plan.batch=8", "workload.parallel.pipeline=2", "topology=dgx_h100"),
    *("topology.shape=Switch(8)_Switch(2)", "topology.tiers=[]"),
]
PRICED = "other_npus=[{npu: a100, at: 8-15, cost: dgx_a100}]"
TREE = "{kind: fat_tree, npus: 16, radix: 8, bandwidth: 50 GB/s, latency: 1 us}"
MIXED = "other_npus=[{npu: a100, at: 8-15}]"


def config(*told: str) -> Config:
    return compose([*GPT, *told]).config


def time(*told: str) -> int:
    return simulate(config(*told)).time_ps


def test_a_preset_is_all_that_it_says() -> None:
    named, own = config(MIXED), config("npu=a100")
    assert named.other_npus[0].npu == own.npu
    assert Config.from_plain(named.plain()) == named
    kinds = build_cluster(named).npus
    assert kinds.of is not None
    assert kinds.of.tolist() == [0] * 8 + [1] * 8
    assert kinds.kinds == (build_cluster(config()).npu, build_cluster(own).npu)
    gh200 = config("other_npus=[{npu: gh200, at: 0}]").other_npus[0].npu
    assert (gh200.kernels, gh200.memory) == ("h100", 96e9)  # of it, and of what it goes on from


def test_the_slower_half_gets_fewer_layers() -> None:
    """An A100 needs more than twice an H100's time for a layer, and has the loss, too."""
    times = {n: time(MIXED, f"workload.plan.stage_layers=[{n},{8 - n}]") for n in range(4, 8)}
    assert min(times, key=times.__getitem__) == 6
    assert time() < times[6] < times[4] < time("npu=a100")


def test_messages_and_phases_agree() -> None:
    told = [MIXED, "workload.model.layers=2", "workload.plan.batch=2", "collective.chunks=1"]
    assert time(*told, "fidelity=message") == pytest.approx(time(*told), rel=0.02)


def test_nobody_measured_two_kinds_together() -> None:
    assert "several kinds" in str(find_evidence(config(MIXED)))
    assert "several kinds" not in str(find_evidence(config()))


@pytest.mark.parametrize(
    ("other", "where", "code", "data"),
    [
        ("{npu: a1000, at: 0}", ".npu", "unknown-name", "'a1000'"),
        ("{npu: a100, at: 16}", ".at", None, "16"),
        ("{npu: a100, at: x}", ".at[0]", "bad-syntax", "'x'"),
        ("{npu: a100}", ".at", "missing", ""),
        ("{npu: {flop: 1 TFLOP/s}, at: 0}", ".npu.flop", "unknown-key", ""),
        (PRICED.removeprefix("other_npus=[").removesuffix("]"), ".cost", "conflict", "cost.npu"),
        ("{npu: a100, at: 0, cost: x}", ".cost", "unknown-name", "'x'"),
        ("{npu: a100, at: 0, cost: libra_3d}", ".cost", "missing", "cost=libra_3d"),
        ("{npu: a100, at: 0, cost: {usd: 1}}", ".cost.usd", "unknown-key", ""),
    ],
)
def test_wrong_keys_are_refused(other: str, where: str, code: Code | None, data: str) -> None:
    with refused(f"other_npus[0]{where}", code, data):
        build_program(config(f"other_npus=[{other}]"))


@pytest.mark.parametrize("more", [MIXED, "network.degrade=[{npu: 20, speed: 50 %}]"])
def test_a_graph_of_another_size_is_told_whatever_its_npus_are(more: str) -> None:
    own = ["fidelity=flow", f"network.generator={TREE.replace('16', '32')}", more]
    with pytest.raises(DimsweepError, match="the network has 32 NPUs, the topology 16"):
        build_program(config(*own))


@pytest.mark.parametrize("more", ["other_npus=[{npu: h100, at: 0-15}]", "cost=none"])
def test_a_proven_bound_on_a_graph_is_not_of_other_npus(more: str) -> None:
    """All NPUs are faster than `npu`, so what that one computes for is no bound."""
    own = ["npu=a100", "fidelity=flow", f"network.generator={TREE}", "workload.model.layers=2"]
    given = config(*own, "workload.plan.batch=2", more)
    bound = minimum_seconds(given, build_program(given))
    seconds = simulate(given).time_ps * 1e-12
    assert 0 < bound <= seconds
    assert (bound > 0.5 * seconds) == (more == "cost=none")


@pytest.mark.parametrize("cost", ["dgx_h100", "h100_2024_08"])
@pytest.mark.parametrize("more", [[], ["fidelity=flow", f"network.generator={TREE}"]])
def test_half_of_the_npus_at_a_price_of_their_own(cost: str, more: list[str]) -> None:
    """Eight A100s at 24,900 USD and 813 W in the place of H100s, on any network."""
    own = ["topology.tiers=[pod,pod]", f"cost={cost}", *more]
    mixed, alike = build_cluster(config(PRICED, *own)), build_cluster(config(*own))
    rest = {"dgx_h100": (37_500, 1275, 1), "h100_2024_08": (310_000 / 8, 10_200 / 8, 1.3)}
    usd, watts, pue = rest[cost]
    at = np.array([dim.bandwidth for dim in mixed.topology.dims])
    for ours, whole, saved in (
        (mixed.prices, alike.prices, 8 * (usd - 24_900)),
        (mixed.power, alike.power, 8 * pue * (watts - 813)),
    ):
        assert ours is not None and whole is not None
        assert whole.cost(at) - ours.cost(at) == pytest.approx(saved)


def test_what_has_no_price_is_told() -> None:
    own = config(MIXED, "topology.tiers=[node,pod]", "cost=dgx_h100")
    cluster = build_cluster(own)
    assert cluster.prices is None and cluster.power is None
    (told,) = own.purchase(cluster.topology, cluster.network).bill().missing
    assert told.startswith("no price for the 8 NPUs of other_npus[0]")
    alone = build_cluster(own.with_values({"cost.npu": "0 USD", "cost.power.npu": "0 W"}))
    assert alone.prices is not None and alone.power is not None


def test_a_price_says_who_says_it() -> None:
    a100, server = (
        config(f"other_npus=[{{npu: a100, at: 0, cost: {name}}}]", "cost.npu=1 USD")
        .other_npus[0]
        .cost
        for name in ("dgx_a100", "h100_2024_08")
    )
    assert a100.source == "2020-05 data sheet: NVIDIA, press release on the DGX A100"
    assert (server.npus, server.price, server.watts) == (8, 310e3, 10.2e3)
    assert server.source == "2024-08 V: public spreadsheet of H100 clusters"


def test_a_trace_has_one_time_of_a_computation(tmp_path: Path) -> None:
    own = config(MIXED, "workload.model.layers=2", "workload.plan.batch=2")
    cluster = build_cluster(own)
    with pytest.raises(DimsweepError, match="for all ranks that share a graph"):
        write_chakra_workload(own.workload.build(cluster), cluster, tmp_path / "t")


def test_files_of_other_npus_are_what_a_row_depends_on(tmp_path: Path) -> None:
    told = f"other_npus=[{{npu: {{flops: 1 TFLOP/s, measured: {tmp_path}/m.csv}}, at: 0}}]"
    assert config(told).files()["other_npus[0].npu.measured"] == f"{tmp_path}/m.csv"


def test_utilisation_is_of_all_peaks() -> None:
    """Half of the NPUs have 312 of 989 TFLOP/s."""
    own, of_h100 = simulate(config(MIXED)), simulate(config())
    work = [each.merits["mfu"] * each.time_ps for each in (own, of_h100)]
    assert work[0] == pytest.approx(work[1] * 989 / ((989 + 312) / 2))
