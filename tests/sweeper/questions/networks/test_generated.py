"""Networks that generators make, among products of dimensions: searched by cuts and simulated by
flows; the same answer as by simulating all of them."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import CollectiveKind, DimsweepError, Group, InfeasibleError
from dimsweep.engine.bound import cut_bound, time_by_cuts
from dimsweep.engine.bound.communication import bound_by_npu_links, members_of
from dimsweep.engine.network.generators import FatTree, Generator, Hpn, ZCube
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import PrunedCell, read_study
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.findings import sentence
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.studies import run
from tests.sweeper.questions.networks.test_designs import STUDY, proof_of

GENERATORS = """    generators:
      - {kind: zcube, n: 4, k: 2, bandwidth: 25 GB/s, latency: 1 us}
      - {kind: rail_only, npus: 16, radix: 8, rails: 4, server: 4, bandwidth: 50 GB/s,
         nvlink: 200 GB/s, latency: 2 us}
      - {kind: ocs_torus, shape: [4, 2, 2], cube: 2, bandwidth: 50 GB/s, latency: 1 us}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., StudyPlan]:
    file = tmp_path / "which.yaml"
    file.write_text(STUDY.replace("    tiers:\n", f"{GENERATORS}    tiers:\n"))
    return lambda *words: plan_study(compose([f"study={file}", *words, f"results={tmp_path}"]))


@pytest.mark.long
def test_the_best_of_generated_networks_and_products_is_that_of_all_simulated(
    plan: Callable[..., StudyPlan],
) -> None:
    study = plan("space.plan.zero=[0]", "space.plan.tensor=[4]")
    designs = study.stream
    assert isinstance(designs, Designs)
    times, kinds = [], set()
    for i in range(len(designs.cells.rows)):
        for m, loads in enumerate(designs.cells.bound_loads(i).tolist()):
            found = designs.plan(int(designs.cells.first[i]) + m)
            assert not isinstance(found, PrunedCell)
            assert found.plan.bound is not None
            time = simulate(found.plan.config, found.program).time
            assert designs.cells.compute_seconds[i] <= loads * (1 + 1e-12)
            assert loads <= found.plan.bound * (1 + 1e-12) <= time * (1 + 1e-9)
            times.append(time)
            kinds.add(found.plan.cell.coordinates["network.generator"])
    assert {kind.partition("(")[0] for kind in kinds} == {
        *("none", "zcube", "rail_only", "ocs_torus")
    }
    assert "zcube(bandwidth 25 GB/s, latency 1 us, n 4)" in kinds
    run(study)
    proof = proof_of(study)
    assert proof.best == pytest.approx(min(times), rel=1e-12)
    assert proof.bound == proof.best
    assert proof.cells == len(times)
    assert proof.simulated < len(times) / 2


@pytest.mark.parametrize(
    ("sizes", "group", "members"),
    [
        ((8,), Group((2,), (2,)), [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ((2, 4), Group((2, 2), (1, 2)), [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ((2, 4), Group((1, 4), (1, 1)), [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ],
)
def test_all_groups_of_a_form_are_found(
    sizes: tuple[int, ...], group: Group, members: list[list[int]]
) -> None:
    assert sorted(members_of(group, sizes)) == members


@pytest.mark.parametrize(
    "generator",
    [
        ZCube(n=4, k=2, bandwidth=25e9),
        Hpn(npus=16, radix=8, rails=2, bandwidth=25e9),
        FatTree(npus=16, radix=8, bandwidth=25e9),
    ],
)
def test_single_npus_bound_no_more_than_cuts(generator: Generator) -> None:
    network = generator.build()
    group = list(range(0, 16, 2))
    for kind, reduces in product(CollectiveKind, (False, True)):
        cut = float(cut_bound(network, group, kind, switches_reduce=reduces).per_byte)
        assert 0 < bound_by_npu_links(network, len(group), kind) <= cut * (1 + 1e-12)


def test_a_generator_of_other_npus_is_refused(plan: Callable[..., StudyPlan]) -> None:
    with pytest.raises(DimsweepError) as error:
        plan("space.network.npus=32")
    assert error.value.code == "mismatch" and "16" in str(error.value) and "32" in str(error.value)
    assert error.value.where.startswith("space.network.generators[0]")


@pytest.mark.long
def test_networks_that_fall_to_pieces_are_counted(plan: Callable[..., StudyPlan]) -> None:
    """Each NPU of a fat tree hangs on one cable, those of a ZCube on two."""
    tree = "{kind: fat_tree, npus: 16, radix: 8, bandwidth: 50 GB/s, latency: 1 us}"
    zcube = "{kind: zcube, n: 4, k: 2, bandwidth: 25 GB/s, latency: 1 us}"
    down = ["space.network.tiers=[]", "network.degrade=[{link: {draw: 1}, down: true}]"]
    designs = plan(*down, f"space.network.generators=[{tree},{zcube}]").stream
    assert isinstance(designs, Designs)
    assert [shape.generator for shape in designs.cells.shapes] == [
        ZCube(n=4, k=2, bandwidth=25e9, latency=1_000_000)
    ]
    assert designs.refused["generated networks fall to pieces (network.degrade)"] == 1
    with pytest.raises(InfeasibleError, match="1 generated networks fall") as error:
        plan(*down, f"space.network.generators=[{tree}]")
    assert error.value.hint == "give other generators, or other values of their keys"


@pytest.mark.long
def test_generated_networks_need_no_tiers(plan: Callable[..., StudyPlan]) -> None:
    study = plan("space.network.tiers=[]", "space.plan.tensor=[4]", "space.plan.zero=[0]")
    run(study)
    proof = proof_of(study)
    assert proof.cells == sum(proof.excluded) + proof.simulated
    assert proof.best == proof.bound


@pytest.mark.long
def test_what_sends_too_many_messages_is_left_out_and_may_be_the_best(
    plan: Callable[..., StudyPlan],
) -> None:
    words = "space.plan.zero=[0]", "space.plan.tensor=[4]", "network.max_messages=1000"
    study = plan(*words, "what_if=default")
    designs, bounds = study.stream, list[float]()
    assert isinstance(designs, Designs)
    for i in range(len(designs.cells.rows)):
        own = [shape.generator is not None for shape in designs.cells.shapes]
        candidates = designs.cells.candidates(designs.cells.rows[i])
        bounds += designs.cells.bound_loads(i)[np.array(own)[candidates.shape]].tolist()
    run(study)
    proof = proof_of(study)
    assert proof.best is not None
    assert proof.bound is not None
    assert proof.bound <= min(bounds) * (1 + 1e-9) < proof.best, "nobody knows how long these take"
    reason = "cells have more messages than network.max_messages, and are left out"
    left_out = proof.refused[reason]
    assert 0 < left_out <= len(bounds)
    assert proof.cells == sum(proof.excluded) + proof.simulated + left_out
    assert sentence(read_study(study.folder)).startswith("Within ")
    assert "left out" in read_report(study.folder).proof
    again = plan(*words, "what_if=default")
    run(again)
    assert proof_of(again) == proof


@pytest.mark.parametrize(("port", "by"), [("25 GB/s", "computes"), ("0.1 GB/s", "cuts")])
def test_a_cell_of_a_grid_on_a_graph_has_a_bound(tmp_path: Path, port: str, by: str) -> None:
    file = tmp_path / "graph.yaml"
    file.write_text(
        f"""
defaults: [override /workload: gpt3_13b, override /topology: dgx_h100, override /npu: h100, _self_]
workload:
  model: {{layers: 2}}
  parallel: {{tensor: 4, pipeline: 2, data: rest}}
  plan: {{batch: 8, interleave: 1, recompute: none}}
objective: time
fidelity: flow
collective: {{chunks: 1}}
topology: {{shape: Switch(4)_Switch(4), tiers: [], latency: 0 s}}
grid:
  network.generator: [{{kind: zcube, n: 4, server: 4, bandwidth: {port}}}]
"""
    )
    study = plan_study(compose([f"study={file}", f"results={tmp_path}"], may_sweep=True))
    (cell,) = study.cells
    bound = cell.bound
    assert bound is not None
    config = cell.config
    program = build_program(config)
    assert 0 < bound <= simulate(config, program).time
    assert program.cluster.network.graph is not None
    cuts = time_by_cuts(program, program.cluster.network.graph)
    assert cuts is not None
    assert (bound > cuts.picoseconds / 1e12) == (by == "computes")
