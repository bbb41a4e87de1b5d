"""What a configuration says of NPUs that are another kind than the rest."""

from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.build.evidence import evidence
from dimsweep.sweeper.build.program import build_cluster, build_program
from dimsweep.sweeper.build.simulate import simulate
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config

# A GPT-3 of 8 layers in two stages, each on a node of 8: H100s, and A100s.
GPT = [
    *("workload=gpt3_175b", "workload.model.layers=8", "workload.plan.interleave=1", "npu=h100"),
    *("workload.plan.batch=8", "workload.parallel.pipeline=2", "topology=dgx_h100"),
    *("topology.shape=Switch(8)_Switch(2)", "topology.tiers=[]"),
]
MIXED = "other_npus=[{npu: a100, at: 8-15}]"


def config(*told: str) -> Config:
    return compose([*GPT, *told]).config


def time(*told: str) -> int:
    return simulate(config(*told)).time_ps


def test_a_preset_is_all_that_it_says() -> None:
    named, own = config(MIXED), config("npu=a100")
    assert named.other_npus[0].npu == own.npu
    assert Config.of(named.plain()) == named
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
    assert "several kinds" in str(evidence(config(MIXED)))
    assert "several kinds" not in str(evidence(config()))


@pytest.mark.parametrize(
    ("told", "where", "says"),
    [
        (["other_npus=[{npu: a1000, at: 0}]"], "other_npus[0].npu", "no option 'a1000'"),
        (["other_npus=[{npu: a100, at: 16}]"], "other_npus[0].at", "there is no NPU 16"),
        (["other_npus=[{npu: a100, at: x}]"], "other_npus[0].at[0]", "'x' is no NPU"),
        (["other_npus=[{npu: a100}]"], "other_npus[0].at", "needs a value"),
        (["other_npus=[{npu: {flop: 1 TFLOP/s}, at: 0}]"], "other_npus[0].npu.flop", "unknown key"),
        ([MIXED, "cost.npu=1 USD"], "cost.npu", "NPUs of one kind"),
        ([MIXED, "cost.power.npu=1 W"], "cost.power.npu", "NPUs of one kind"),
    ],
)
def test_what_is_wrong_is_named(told: list[str], where: str, says: str) -> None:
    with pytest.raises(DimsweepError) as raised:
        build_program(config(*told))
    assert raised.value.where.split(" ")[0] == where
    assert says in raised.value.what


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
