"""cluster= sets the parts of a machine together, and nodes= its size."""

from pathlib import Path

import pytest

from dimsweep.engine import Result, run_one
from dimsweep.engine.errors import Code
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.complete import complete_override
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.places import list_folders, list_groups
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.study.rules import machine_warnings
from tests.support.refused import refused

PARTS = ("topology", "npu", "memory", "network", "cost", "collective")
SMALL = ("workload=llama3_8b", "workload.model.layers=2")
MACHINES = list_groups()["cluster"]
NODE = {"gb200_nvl72": 72, "gb300_nvl72": 72, "trainium2": 16} | dict.fromkeys(
    ("alps", "tpu_v4", "tpu_v5p", "tpu_v7"), 4
)


def seconds(*overrides: str) -> float:
    return Result(run_one(build_program(compose([*SMALL, *overrides]).config))).time


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_sets_all_its_parts_with_a_source_for_each(name: str) -> None:
    nodes = 32 if name in ("tpu_v5e", "tpu_v6e") else 16  # one pod, the only size that is a torus
    composed = compose([*SMALL, f"cluster={name}", f"nodes={nodes}"])
    text = (list_folders("conf")[-1] / "cluster" / f"{name}.yaml").read_text()
    head = text.split("defaults:")[0]
    for part in PARTS:
        assert f"override /{part}: {composed.choices[part]}" in text
        assert f"#   {part} " in head, f"{name} has no source for its {part}"
    assert machine_warnings(composed, priced=True) == []
    assert build_program(composed.config).n_npus == NODE.get(name, 8) * nodes


def test_a_machine_by_its_network_alone_has_other_chips_and_prices() -> None:
    """Which was simulated without a word: two to three times too slow."""
    alone = seconds(
        "topology=dgx_b200", "topology.shape=Switch(8)_Switch(8)", "collective=streamed"
    )
    whole = seconds("cluster=dgx_b200", "nodes=8", "collective=streamed")
    assert alone > 2 * whole
    (told,) = machine_warnings(compose([*SMALL, "topology=dgx_b200"]), priced=True)
    assert "topology=dgx_b200 of B200, npu=a100 of A100, cost=libra_4d of LIBRA" in told
    assert told.endswith(
        "cluster=dgx_b200 sets all parts together, npu=b200 cost=dgx_b200 only these"
    )


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["topology=dgx_h100", "npu=h200", "cost=dgx_h100"], []),
        (["topology=dgx_a100", "npu=a100", "cost=illustrative"], []),
        (["topology=libra_4d", "npu=a100", "cost=libra_4d"], []),
        (["topology=libra_4d", "npu=a100", "cost=dgx_h100"], ["npu=a100", "cost=dgx_h100"]),
        (["topology=dgx_b200", "npu=b200", "cost=gb200_nvl72"], ["topology=", "npu=", "cost="]),
        (["cluster=dgx_h100", "npu=b200"], ["topology=hgx_h100", "npu=b200", "cost=dgx_h100"]),
    ],
)
def test_parts_of_unlike_machines_are_told(overrides: list[str], told: list[str]) -> None:
    found = " ".join(machine_warnings(compose([*SMALL, *overrides]), priced=True))
    assert all(part in found for part in told) and bool(found) == bool(told)


def test_a_part_beside_a_machine_goes_before_the_machines() -> None:
    for overrides in (["cluster=dgx_h100", "npu=h200"], ["npu=h200", "cluster=dgx_h100"]):
        composed = compose([*SMALL, *overrides])
        assert composed.choices["npu"] == "h200" and composed.choices["topology"] == "hgx_h100"


def _study(folder: Path, text: str, *overrides: str) -> ComposedConfig:
    file = folder / "machines.yaml"
    file.write_text(text)
    return compose([f"study={file}", *SMALL, f"results={folder}", "executor=inline", *overrides])


def test_a_machine_on_the_command_line_goes_before_a_studys_parts(tmp_path: Path) -> None:
    text = "defaults: [override /topology: dgx_a100, override /npu: a100, _self_]\n"
    assert _study(tmp_path, text).choices["npu"] == "a100"
    composed = _study(tmp_path, text, "cluster=dgx_h100", "nodes=4")
    assert composed.choices["topology"] == "hgx_h100" and composed.choices["npu"] == "h100"


def test_machines_and_sizes_are_axes_of_a_grid(tmp_path: Path) -> None:
    text = "objective: throughput\ngrid: {cluster: [dgx_h100, gb200_nvl72], nodes: [1, 4]}\n"
    plan = plan_study(_study(tmp_path, text))
    sizes = [cell.n_npus for cell in plan.study.cells]
    assert sizes == [8, 32, 72, 288]
    assert [cell.config.npu.efficiency for cell in plan.cells] == [0.91, 0.91, 0.8, 0.8]


def test_a_searched_size_is_simulated(tmp_path: Path) -> None:
    config = _study(tmp_path, "defaults: [override /cluster: alps, _self_]\nnodes: 4\n").config
    assert config.topology.shape == "FullyConnected(4)_Switch(4)"
    assert config.with_values({"nodes": 8}).topology.shape == "FullyConnected(4)_Switch(8)"


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (16, "Ring(4)_Ring(4)_Ring(4)"),
        (128, "Ring(8)_Ring(8)_Ring(8)"),
        (256, "Ring(8)_Ring(8)_Ring(16)"),
        (1536, "Ring(16)_Ring(16)_Ring(24)"),
    ],
)
def test_a_torus_is_as_nearly_a_cube_as_it_can_be(nodes: int, shape: str) -> None:
    assert compose([*SMALL, "cluster=tpu_v5p", f"nodes={nodes}"]).config.topology.shape == shape


@pytest.mark.parametrize(
    ("overrides", "code", "data"),
    [
        ("nodes=4", "missing", "cluster=, one of alps, dgx_a100"),
        ("topology=dgx_h100 nodes=4", "missing", "cluster="),
        ("cluster=none nodes=4", "missing", "cluster="),
        ("cluster=dgx_h100 nodes=0", "out-of-range", "0"),
        ("cluster=dgx_h100 nodes=-4", "out-of-range", "-4"),
        ("cluster=dgx_h100 nodes=many", "wrong-type", "'many'"),
        ("cluster=dgx_h100 nodes=1.5", "wrong-type", "1.5"),
        ("cluster=dgx_h100 nodes=true", "wrong-type", "true"),
        ("cluster=alps nodes=3000", "out-of-range", "2,688"),
        ("cluster=tpu_v5p nodes=100", "mismatch", "80, 96, 112, 128"),
        ("cluster=tpu_v5p nodes=176", "mismatch", "144, 160, 192, 224"),
        ("cluster=dgx_h100 topology=libra_4d nodes=4", "conflict", "topology.shape"),
        ("cluster=dgx_h100 topology.shape=Ring(4)_Switch(4) nodes=4", "mismatch", "Ring(4)"),
    ],
)
def test_impossible_sizes_are_refused(overrides: str, code: Code, data: str) -> None:
    with refused("nodes", code, data):
        compose([*SMALL, *overrides.split()])


def test_an_unknown_machine_is_refused() -> None:
    with refused("cluster=dgx_h10", "unknown-name", "did you mean 'dgx_h100'"):
        compose([*SMALL, "cluster=dgx_h10"])


def test_machines_are_listed_and_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "cluster"]) == 0
    assert capsys.readouterr().out.split() == ["cluster:", *MACHINES]
    assert complete_override([], "cluster=dgx_h") == ["cluster=dgx_h100"]
    assert complete_override([], "node") == ["nodes="] and "cluster=" in complete_override(
        [], "clu"
    )


def test_the_executors_old_name_stands_in_no_way() -> None:
    with refused("cluster.actors", "unknown-key", "executor.actors"):
        compose(["cluster.actors=3"])
