"""dimsweep repurpose as a user types it."""

from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import simulate
from dimsweep.engine.formats.weights import read_network
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster, build_workload

QUICK = ["topology.latency=1 us", "workload.batch=4", "workload.penalty.traffic=1.0"]


@pytest.fixture(autouse=True)
def small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a network that tells positive sums from others, and samples of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((80, 8))
    first = np.repeat(np.eye(4), 2, axis=1) + 0.02 * rng.standard_normal((4, 8))
    order = rng.permutation(8)
    weights = np.concatenate([first, -first])[:, order]
    second = np.stack([np.r_[np.ones(4), -np.ones(4)], np.r_[-np.ones(4), np.ones(4)]])
    np.savez("net.npz", **{"a.weight": weights, "b.weight": second})
    labels = read_network("net.npz").run(inputs).argmax(axis=1)
    np.savez("samples.npz", inputs=inputs[:40], labels=labels[:40], calibration=inputs[40:])


def test_methods_are_compared_and_one_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dimsweep.sweeper.extensions.repurpose.compare.PENALTIES", (0.3, 3.0))
    words = ["repurpose", "net.npz", "--workers", "2", "--samples", "samples.npz", *QUICK]
    assert main([*words, "-o", "two.npz", "--front", "front.png"]) == 0
    said = capsys.readouterr().out
    assert "net on Switch(2): 100.00% accurate as trained" in said
    rows = {line.split()[0]: line.split() for line in said.split("least")[0].splitlines()[2:]}
    sent = {name: int(row[3].replace(",", "")) for name, row in rows.items() if "B" in row}
    assert list(sent) == ["repurpose", "direct", "magnitude", "random", "naive"]
    assert sent["repurpose"] < sent["direct"] < sent["naive"] == 4 * (8 + 8)
    assert "times less than naive by repurpose" in said
    assert Path("front.png").read_bytes().startswith(b"\x89PNG")
    with np.load("two.npz") as written:
        assert set(written["worker_of_boundary_1"]) == {0, 1}
    assert (read_network("two.npz").layers[0].weight == 0).any()


def test_what_traffic_is_worth_is_a_key_of_the_workload(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a study may sweep it, and the number of workers with the topology."""
    workload = ["workload=repurposed", "workload.model=net.npz", "topology=edge_switch"]
    sent = []
    for penalty in ("0.1", "9"):
        assert main(["simulate", *workload, f"workload.penalty.traffic={penalty}"]) == 0
        lines = capsys.readouterr().out.splitlines()
        sent.append(next(" 0 B " in line for line in lines if line.startswith(" 0: Switch(4)")))
    assert sent == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.npz", "--workers", "2"], "gone.npz"),
        (["net.npz", "--workers", "9"], "9 workers cannot each hold a unit"),
        (["net.npz", "--workers", "2", "topology.shape=Switch(4)"], "4 NPUs, and --workers 2"),
        (["net.npz", "workload.speed=[1,2]"], "2 speeds for 4 NPUs"),
        (["net.npz", "workload.method=dirct"], "'dirct'"),
        (["net.npz", "--workers", "2", "--front", "f.png"], "needs samples"),
        (["net.npz", "workload=gpt3_libra"], "unknown key"),
        (["net.npz", "workload.penalty.traffic=-1"], "workload.penalty.traffic"),
    ],
)
def test_what_cannot_be_is_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["repurpose", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_accuracy_is_a_figure_that_a_study_can_search_for() -> None:
    words = ["workload=repurposed", "workload.model=net.npz", "npu=jetson_nano", *QUICK]
    words += ["topology=edge_switch", "topology.shape=Switch(2)", "objective=[time, accuracy]"]
    found = []
    for more in ([], ["workload.penalty.traffic=0.0"], ["workload.samples=null"]):
        config = compose([*words, "workload.samples=samples.npz", *more]).config
        cluster = build_cluster(config)
        found.append(simulate(build_workload(config, cluster), cluster).merits.get("accuracy"))
    assert found[0] < found[1] == 1.0 and found[2] is None
    assert [each.direction for each in config.objective] == ["minimize", "maximize"]
