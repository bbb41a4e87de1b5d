"""The proven best of a space is the best of all its designs, each simulated with its keys set."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.ledger.record import Proof
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.study.cell import plan_cell
from tests.support.spaces import Losses, Space, random_study, simulate_all, text_of, vary
from tests.support.studies import run
from tests.sweeper.questions.networks.test_designs import proof_of

FINE = 1.002  # designs of a front that differ less in cost stand for one another
Write = Callable[[Space], ComposedConfig]


def written(folder: Path, study: Space) -> ComposedConfig:
    file = folder / f"space{len([*folder.iterdir()])}.yaml"
    file.write_text(text_of(study))
    return compose([f"study={file}", f"results={folder / 'results'}"])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Compose a study from its file."""
    return partial(written, tmp_path)


def searched(composed: ComposedConfig) -> Proof:
    plan = plan_study(composed)
    run(plan)
    return proof_of(plan)


def check(proof: Proof, composed: ComposedConfig, losses: Losses) -> None:
    """Check that no design is better than the proven best, or below the proven front."""
    assert proof.best is not None
    best = min(loss for loss, _ in losses)
    assert composed.config.objective[0].loss(proof.best) == pytest.approx(best, rel=1e-9)
    assert proof.bound == proof.best
    for step in proof.front:
        near = [loss for loss, cost in losses if cost is not None and cost <= step.cost]
        assert step.time <= min(near) * (1 + 1e-9)
    for loss, cost in losses if proof.front else ():
        assert cost is not None
        assert any(s.time <= loss * (1 + 1e-9) and s.cost <= cost * FINE for s in proof.front)


def check_random(write: Write, seed: int, *, varied: bool) -> None:
    study = random_study(seed)
    composed, other = write(study), write(vary(study, random.Random(seed)))
    losses = simulate_all(composed.config)
    if not losses:
        with pytest.raises(DimsweepError):
            searched(composed)
        return
    proof = searched(composed)
    check(proof, composed, losses)
    if varied:
        check(searched(other), other, losses)


@pytest.mark.parametrize("seed", range(6))
def test_no_design_of_a_random_space_is_better(write: Write, seed: int) -> None:
    check_random(write, seed, varied=seed % 2 == 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6, 206))
def test_no_design_of_many_random_spaces_is_better(write: Write, seed: int) -> None:
    check_random(write, seed, varied=seed % 5 == 0)


def case(
    model: dict[str, Any], plan: dict[str, Any], space: Space, objective: str = "time"
) -> Space:
    family = "mixtral_8x22b" if plan.get("interleave") else "gpt3_13b"
    chosen = {"workload": family, "npu": "h100", "cost": "dgx_h100", "collective": "whole"}
    return {
        "defaults": [*({f"override /{key}": name} for key, name in chosen.items()), "_self_"],
        "workload": {"model": model, "plan": plan},
        "npu": {"memory": "2 TB"} if plan.get("interleave") else {},
        "objective": objective,
        "what_if": None,
        "space": {"network": {"npus": 8, **space["network"]}, "plan": space["plan"]},
    }


def tiers(bandwidth: str = "450 GB/s") -> Space:
    return {"tiers": [{"blocks": ["Switch"], "bandwidth": [bandwidth], "price": "package"}]}


TWO = [
    {"blocks": ["Switch", "FullyConnected"], "sizes": [1], "bandwidth": ["450 GB/s", "150 GB/s"]},
    {"blocks": ["Switch"], "bandwidth": ["100 GB/s"], "price": "pod"},
]
SCHEDULES = {"plan": {"pipeline": [1, 2], "schedule": ["dualpipe", "1f1b"]}}
EXPERTS = {"context": [1, 2], "expert": [1, 2]}
ZCUBE = {"generators": [{"kind": "zcube", "n": 2, "k": 3}]}
CASES = {
    "interleave": case(
        {"layers": 4},
        {"batch": 32},
        {"network": tiers(), "plan": {"pipeline": [1, 2], "interleave": [2, 1]}},
    ),
    "schedule": case({"layers": 4}, {"batch": 32}, {"network": tiers(), **SCHEDULES}),
    "gpipe": case(
        {"layers": 4},
        {"batch": 64, "zero": 2},
        {
            "network": tiers("25 GB/s"),
            "plan": {"pipeline": [1], "schedule": ["gpipe", "1f1b"]},
        },
    ),
    "zero": case(
        {"layers": 6},
        {"batch": 64},
        {"network": tiers(), "plan": {"tensor": [8], "zero": [1, 2]}},
    ),
    "tier of one": case(
        {"layers": 4},
        {"batch": 32},
        {"network": {"tiers": TWO}, "plan": {"tensor": [1, 2]}},
        "perf_per_cost",
    ),
    "experts on a graph": case(
        {"layers": 2}, {"batch": 32, "interleave": 1}, {"network": ZCUBE, "plan": EXPERTS}
    ),
    "experts": case(
        {"layers": 2}, {"batch": 32, "interleave": 1}, {"network": tiers(), "plan": EXPERTS}
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("study", CASES.values(), ids=CASES)
def test_no_design_of_a_reported_space_is_better(write: Write, study: Space) -> None:
    composed = write(study)
    check(searched(composed), composed, simulate_all(composed.config))


def designs_of(composed: ComposedConfig) -> Designs:
    designs = plan_study(composed).stream
    assert isinstance(designs, Designs)
    return designs


@pytest.mark.parametrize("values", [[2, 1], [1, 2], [2], []], ids=str)
def test_without_a_pipeline_nothing_is_interleaved(write: Write, values: list[int]) -> None:
    """Also where the workload's own value needs a pipeline."""
    space = {"network": tiers(), "plan": {"pipeline": [1, 2], "interleave": values}}
    designs = designs_of(write(case({"layers": 4}, {"batch": 32, "interleave": 2}, space)))
    rows = [row.values["interleave"] for row in designs.cells.rows if row.degrees[3] == 1]
    assert rows == [1]


def test_plans_of_one_program_count_once(write: Write) -> None:
    plan = {"tensor": [8, 8], "zero": [3, 0, 3], "schedule": ["gpipe", "1f1b", "gpipe", "zb_h1"]}
    space = {"network": tiers(), "plan": plan}
    designs = designs_of(write(case({"layers": 4}, {"batch": 32}, space)))
    assert [row.values["schedule"] for row in designs.cells.rows] == ["gpipe", "1f1b"]


@pytest.mark.parametrize(
    ("plan", "keys", "reason"),
    [
        ({}, SCHEDULES["plan"], "plans are left out (space.plan.schedule: "),
        (
            {"overlap_parameters": True},
            {"tensor": [1, 2], "zero": [0, 1]},
            "plans are left out (workload.plan.overlap_parameters, such as: only ZeRO 1",
        ),
        ({}, {"tensor": [1], "micro_batch": [1, 5]}, "plans are left out (workload.plan.batch, "),
        ({"stage_layers": [3, 1]}, {"pipeline": [1, 2]}, "plans are left out (workload.plan."),
    ],
    ids=["schedule", "overlap_parameters", "batch", "stage_layers"],
)
def test_an_infeasible_plan_is_counted_by_its_reason(
    write: Write, plan: dict[str, Any], keys: dict[str, Any], reason: str
) -> None:
    space = {"network": tiers(), "plan": keys}
    designs = designs_of(write(case({"layers": 4}, {"batch": 32, **plan}, space)))
    assert len(designs)
    assert [why for why in designs.refused if why.startswith(reason)]


def test_networks_without_a_price_are_counted(write: Write) -> None:
    both = {**tiers(), **ZCUBE}
    for objective, name in (("perf_per_cost", "cost"), ("energy", "power")):
        space = {"network": both, "plan": {"tensor": [1]}}
        designs = designs_of(write(case({"layers": 4}, {"batch": 32}, space, objective)))
        assert designs.refused == {f"networks have a part whose {name} is not known": 1}
        assert [shape.generator for shape in designs.cells.shapes] == [None]


def test_places_that_do_not_fit_are_counted_by_their_reason(write: Write) -> None:
    (reason,) = designs_of(write(CASES["experts on a graph"])).refused
    assert reason.startswith("places do not fit the network (context, data share gradients")


def test_a_space_without_a_feasible_cell_lists_the_reasons(write: Write) -> None:
    plan = {"tensor": [2], "pipeline": [2], "schedule": ["zb_h1"], "micro_batch": [1, 3]}
    space = {"network": tiers(), "plan": plan}
    with pytest.raises(DimsweepError) as error:
        designs_of(write(case({"layers": 4}, {"batch": 32}, space)))
    assert error.value.where.startswith("space.plan")
    for key in ("space.plan.schedule", "workload.plan.batch"):
        assert key in error.value.problem


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("npu.memory", "cells do not fit the memory, as their schedule runs"),
        ("collective.order", "cells are left out (collective.order, such as: too much)"),
    ],
)
def test_a_cell_whose_program_is_infeasible_is_counted(
    write: Write, monkeypatch: pytest.MonkeyPatch, where: str, reason: str
) -> None:
    """Also if it is the most promising plan; without any other plan, the study ends."""
    space = {"network": tiers(), "plan": {"pipeline": [1, 2]}}
    composed = write(case({"layers": 4}, {"batch": 32}, space))
    losses, feasible = simulate_all(composed.config), {"pipeline"}

    def plan(number: int, coordinates: dict[str, str], *rest: Any) -> object:
        if not any(axis in coordinates["workload.parallel"] for axis in feasible):
            raise InfeasibleError("too much", where=where)
        return plan_cell(number, coordinates, *rest)

    monkeypatch.setattr("dimsweep.sweeper.questions.networks.designs.plan_cell", plan)
    proof = searched(composed)
    assert proof.refused == {reason: 1}
    assert proof.best == sorted({loss for loss, _ in losses})[1]
    feasible.clear()
    with pytest.raises(InfeasibleError) as error:
        searched(write(case({"layers": 4}, {"batch": 32}, space)))
    assert reason in error.value.problem
