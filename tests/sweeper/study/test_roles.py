"""What is decided and what is assumed, by default and by key."""

from pathlib import Path

import pytest

from dimsweep.engine.errors import Code
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.roles import default_role, resolve_roles
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.places import list_studies
from dimsweep.sweeper.questions.split.grid import build_grid
from tests.support.refused import refused
from tests.support.studies import SMALL, planned, run

ASSUMED = (
    *("workload", "workload.hidden", "workload.model.sequence", "workload.plan.batch"),
    *("workload.plan.task", "cost", "cost.npu", "profile", "fidelity", "space.bandwidth"),
    *("space.bandwidth.total", "npu.efficiency"),
)
DECIDED = (
    *("topology", "topology.shape", "npu", "npu.flops", "memory", "memory.bandwidth", "network"),
    *("network.routing", "collective", "collective.chunks", "workload.parallel"),
    *("workload.parallel.tensor", "workload.plan.zero", "workload.plan.batches", "cluster"),
)


@pytest.mark.parametrize("axis", ASSUMED)
def test_what_a_design_has_to_stand_is_a_scenario(axis: str) -> None:
    assert default_role(axis) is Role.SCENARIO


@pytest.mark.parametrize("axis", DECIDED)
def test_what_can_be_built_or_run_is_a_decision(axis: str) -> None:
    assert default_role(axis) is Role.DECISION


def test_a_study_says_otherwise_and_keeps_it(tmp_path: Path) -> None:
    words = [*SMALL, "grid={workload: [gpt3_libra], collective.chunks: [2, 4]}", "budget.trials=1"]
    plan = planned([*words, "roles={collective.chunks: scenario}"], tmp_path)
    run(plan)
    study = read_study(plan.folder)
    assert study.roles == {"workload": "scenario", "collective.chunks": "scenario"}
    assert study.scenarios == ("workload", "collective.chunks")
    assert study.decision(study.cells[0].coordinates) == {}
    # They change no row, so a study may have other ones and go on.
    plan = planned(words, tmp_path)
    assert run(plan).reused == 2
    assert read_study(plan.folder).scenarios == ("workload",)


def test_weights_make_an_axis_a_scenario_and_are_kept(tmp_path: Path) -> None:
    words = [*SMALL, "grid={workload: [gpt3_libra], collective.chunks: [2, 4]}", "budget.trials=1"]
    plan = planned([*words, "roles={collective.chunks: {2: 3, 4: 1}}"], tmp_path)
    run(plan)
    study = read_study(plan.folder)
    assert study.scenarios == ("workload", "collective.chunks")
    assert study.weights == {"collective.chunks": {"2": 3.0, "4": 1.0}}
    plan = planned([*words, "roles={collective.chunks: {2: 1, 4: 1}}"], tmp_path)
    assert run(plan).reused == 2  # they change no row either


def test_a_portfolio_has_weights_itself(tmp_path: Path) -> None:
    words = [*SMALL, "portfolio.workloads={gpt3_libra: 1, msft1t_libra: 2}"]
    with refused("roles.workload", "conflict", "portfolio.workloads"):
        planned([*words, "roles={workload: {gpt3_libra: 1, msft1t_libra: 1}}"], tmp_path)


@pytest.mark.parametrize(
    ("word", "where", "code", "data"),
    [
        ("roles={topology.shap: decision}", "topology.shap", "unknown-name", "topology.shap"),
        ("roles={collective.chunks: descision}", "chunks", "unknown-name", "decision, scenario"),
        ("roles={workload: {gpt3_lib: 1}}", "roles.workload", "unknown-name", "'gpt3_lib'"),
        ("roles={collective.chunks: {2: 1}}", "roles.collective.chunks", "missing", "4"),
        ("roles={collective.chunks: {2: 0, 4: 0}}", "collective.chunks", "out-of-range", ""),
        ("roles={collective.chunks: {2: -1, 4: 1}}", "chunks.2", "out-of-range", "-1"),
        ("roles={collective.chunks: {2: heavy, 4: 1}}", "chunks.2", "out-of-range", "'heavy'"),
        ("roles={workload.hidden: {2: 1}}", "workload.hidden", "unknown-name", "workload.hidden"),
        (
            "+space.parameters={workload.hidden: {values: [12288]}}",
            *("space.parameters.workload.hidden", "conflict", "roles: {workload.hidden"),
        ),
        ("baseline={workload: gpt3_libra}", "", None, "leave it out"),
        ("baseline={workload.parallel.tensr: 8}", "", None, "baseline"),
        ("baseline={topology: no_such}", "", None, "no_such"),
        ("baseline={topology.bandwidth: [1 GB/s, 2 GB/s]}", "", None, "baseline"),
        ("baseline=7", "baseline", "wrong-type", "7"),
    ],
)
def test_wrong_roles_are_refused(
    word: str, where: str, code: Code | None, data: str, tmp_path: Path
) -> None:
    grid = "grid={workload: [gpt3_libra], collective.chunks: [2, 4]}"
    with refused(where, code, data):
        planned([*SMALL, grid, word], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", list_studies())
def test_every_study_has_roles(name: str) -> None:
    """None searches a scenario, and none has a role of what is no axis."""
    config = compose([f"study={name}"]).config
    resolve_roles(config, build_grid(config))
