"""What a study says of spare nodes: its keys, its rows, and its search among networks."""

from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.engine.reliability import Spares
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.report.remarks import idle_axes
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.studies import planned, run
from tests.sweeper.questions.networks.test_designs import STUDY

DAY = 86400.0
SMALL = (
    *("workload=gpt3_13b", "topology=dgx_h100", "npu=h100", "cost=dgx_h100", "collective=whole"),
    *("topology.shape=Switch(8)_Switch(2)", "workload.model.layers=2", "workload.plan.batch=16"),
    *("reliability=llama3", "reliability.npu_time=100 day"),
)
SPARES = (
    "reliability.spares=1",
    "reliability.repair={time: 24 hour, npus: 8, share: 80 %}",
)


def test_spares_cost_what_other_nodes_do_and_are_waited_for() -> None:
    plain, own = (simulate(compose([*SMALL, *words]).config) for words in ((), SPARES))
    load = 0.8 * 16 / 100
    waiting = load**2 / 2 / (1 + load + load**2 / 2)
    assert own.renewal is not None
    assert own.renewal.waiting == pytest.approx(waiting)
    assert own.merits["ettr"] == pytest.approx((1 - waiting) * plain.merits["ettr"])
    lifetime = 4 * 365.25 * 86400
    assert own.cost is not None
    assert plain.cost == own.cost, "of the nodes that train"
    more = own.cost * 8 / 16 / lifetime / plain.merits["tokens_per_s"] / plain.merits["ettr"]
    told = own.merits["usd_per_token"] * (1 - waiting) - plain.merits["usd_per_token"]
    assert told == pytest.approx(more, rel=0.01)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("spares=-1", "spares"),
        ("spares=1000000", "spares"),
        ("spares=1.5", "spares"),
        ("repair.time=24", "repair.time"),
        ("repair.time=null", "repair.time"),
        ("repair.time=0 s", "repair.time"),
        ("repair.npus=null", "repair.npus"),
        ("repair.npus=0", "repair.npus"),
        ("repair.share=120 %", "repair.share"),
        ("repair.share=0 %", "repair.share"),
        ("repair={tim: 1 day}", "repair.tim"),
    ],
)
def test_what_cannot_be_is_named(given: str, where: str) -> None:
    with pytest.raises(DimsweepError) as told:
        simulate(compose([*SMALL, *SPARES, f"reliability.{given}"]).config)
    assert told.value.where.split(" ")[0] == f"reliability.{where}"


def test_spares_need_interruptions() -> None:
    with pytest.raises(DimsweepError, match="needs a value") as told:
        simulate(compose([*SMALL, "reliability=none", *SPARES]).config)
    assert told.value.where.startswith("reliability")


def test_how_many_pay_is_a_study(tmp_path: Path) -> None:
    words = ["objective=cost_per_token", "name=spares", "what_if=default", *SPARES]
    words += ["reliability.npu_time=10 day"]
    words += ["grid={reliability.spares: [0, 1, 2, 3]}"]
    plan = planned([*SMALL, *words], tmp_path)
    run(plan)
    rows = load(plan.folder).to_pylist()
    own = [row for row in rows if row["origin"] != "what_if"]
    each = [row["ettr"] for row in own]
    assert each == sorted(set(each)), "more spares are waited for less"
    costs = [row["usd_per_token"] for row in own]
    assert costs.index(min(costs)) == Spares(0, 8, DAY, 0.8).find_best_count(16, 10 * DAY / 16) == 1
    changes = {row["change"] for row in rows if row["origin"] == "what_if"}
    assert {"spares 1 -> 2", "repair x1/2"} <= changes
    assert not idle_axes(load(plan.folder).to_pandas(), plan.study)


def test_bounds_among_networks_know_them(tmp_path: Path) -> None:
    file = tmp_path / "which.yaml"
    file.write_text(STUDY)
    words = (f"study={file}", "reliability=llama3", "reliability.npu_time=100 day", *SPARES)
    designs = plan_study(compose([*words, "objective=cost_per_token"])).stream
    assert isinstance(designs, Designs)
    found = designs.plan(0)
    assert not isinstance(found, PrunedCell)
    assert found.plan.bound is not None
    cost = simulate(found.plan.config, found.program).merits["usd_per_token"]
    assert found.plan.bound <= cost * (1 + 1e-9)
    assert found.plan.bound == pytest.approx(cost, rel=0.05)
