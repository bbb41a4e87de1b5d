"""What would change the answer: the same as all cells simulated say, at any price, bandwidth,
latency and size of the model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import InfeasibleError, run_batch
from dimsweep.engine.bound import bound_time
from dimsweep.sweeper.calibrate.evidence import (
    compute_confidence,
    compute_confidence_on_measured_network,
)
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.draw.design import design_of_answer
from dimsweep.sweeper.ledger.record import Change, End, Proof, Rival
from dimsweep.sweeper.questions.findings import read_report, tabulate_study
from dimsweep.sweeper.questions.networks.changes import Changes, _find_rival, find_changes
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.findings import rival as next_to_it
from dimsweep.sweeper.questions.networks.placements import UNCHANGED_TIERS, TierFactors
from dimsweep.sweeper.questions.networks.race import LAYERS, KnownCells
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.questions.what_if.change import resolve
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.study.cell import PlannedCell
from tests.support.studies import run
from tests.sweeper.questions.networks.test_designs import STUDY, proof_of

Floats = np.ndarray
MARGINS = {"": 0.0, "near_": 0.01}


# NPUs cost as much as their ports, so that prices decide between networks.
TEXT = STUDY.replace("objective: time", "objective: perf_per_cost")
TEXT = TEXT.replace("what_if: null", "cost: {npu: 600 USD, tiers: {pod: {block: 0 USD}}}")
for own, other in (
    ("[12.5 GB/s, 50 GB/s]", "[12.5 GB/s, 25 GB/s, 50 GB/s, 100 GB/s]"),
    ("[200 GB/s]", "[50 GB/s, 200 GB/s]"),
    ("sizes: [2, 4]", "sizes: [4]"),
    ("sizes: [4, 8]", "sizes: [4]"),
    ("zero: [0, 1]", "zero: [0]"),
    ("price: pod", "price: pod, latency: 40 us"),
):
    TEXT = TEXT.replace(own, other)


TODAY = """
baseline:
  topology.shape: Ring(2)_Switch(4)
  topology.bandwidth: [450 GB/s, 25 GB/s]
  workload.parallel: {tensor: 2, data: 4}
"""
# Two NPUs of a ring, and of a full mesh, are joined by one link.
TWINS = """
defaults: [override /workload: gpt3_13b, override /npu: h100, override /cost: dgx_h100, _self_]
workload: {model: {layers: 4}, plan: {batch: 32}}
collective: {chunks: 1}
objective: time
executor: {mode: inline}
space:
  network:
    npus: 8
    tiers:
      - {blocks: [Ring, FullyConnected], sizes: [2], bandwidth: [450 GB/s], price: package}
      - {blocks: [Switch], bandwidth: [100 GB/s], price: pod}
  plan: {tensor: [1, 2]}
"""


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> ComposedConfig:
    folder = tmp_path_factory.mktemp("changes")
    file = folder / "which.yaml"
    file.write_text(TEXT)
    return compose([f"study={file}", "cost.tiers.package.block=0 USD", f"results={folder}"])


@pytest.fixture(scope="module")
def designs(composed: ComposedConfig) -> Designs:
    return Designs(composed)


@pytest.fixture(scope="module")
def seconds(designs: Designs) -> Callable[[TierFactors], Floats]:
    """The simulated seconds of all cells, on moved tiers."""
    programs = []
    for number in range(len(designs)):
        cell = designs.plan(number)
        assert isinstance(cell, PlannedCell)
        programs.append(cell.program)

    def of(moved: TierFactors) -> Floats:
        times = []
        for own in programs:
            latency = np.rint(own.latency * (moved.latency or 1.0)).astype(int)
            bandwidth = own.bandwidth * (moved.bandwidth or 1.0)
            times.append(run_batch(own.rebind(latency=latency), bandwidth[None]).time[0])
        return np.array(times) / 1e12

    return of


@pytest.fixture(scope="module")
def factors(designs: Designs) -> Floats:
    return np.concatenate([designs.loss_factors(row) for row in designs.cells.rows])


@pytest.fixture(scope="module")
def found(designs: Designs, best: int) -> Changes:
    return find_changes(designs, best)


@pytest.fixture(scope="module")
def changes(found: Changes) -> dict[str, Change]:
    return {each.name: each for each in found.changes}


@pytest.fixture(scope="module")
def best(seconds: Callable[[TierFactors], Floats], factors: Floats) -> int:
    return int(np.argmin(seconds(UNCHANGED_TIERS) * factors))


def number_of(designs: Designs, by: Mapping[str, str] | None) -> int:
    return next(n for n in range(len(designs)) if designs.compose(n)[0] == by)


PRICES = {
    "prices of package": {"cost.tiers.package": "x2"},
    "prices of pod": {"cost.tiers.pod": "x2"},
    "price of NPUs": {"cost.npu": "x2"},
}


MOVES = {
    f"{what} of {tier}": (what, dim)
    for what in ("bandwidth", "latency")
    for dim, tier in enumerate(("package", "pod"))
}


@pytest.mark.long
def test_what_changes_the_answer_is_told_of_all_that_may_move(
    changes: dict[str, Change],
) -> None:
    assert set(changes) == {*PRICES, *MOVES, "layers of the model (4)"}


@pytest.mark.long
@pytest.mark.parametrize("name", PRICES)
def test_a_price_may_move_until_another_cell_is_the_best(
    designs: Designs,
    seconds: Callable[[TierFactors], Floats],
    factors: Floats,
    changes: dict[str, Change],
    best: int,
    name: str,
) -> None:
    config, times = designs.composed.config, seconds(UNCHANGED_TIERS)
    twice = designs.slopes(config.with_values(resolve(config, PRICES[name])))
    places = [designs.cells.candidates(row) for row in designs.cells.rows]
    slopes = np.concatenate([designs.cells.places.select_networks(twice, each) for each in places])

    def lost(factor: float) -> tuple[float, int]:
        """By which share the best cell loses at a price, and to which one."""
        losses = times * (factors + (factor - 1) * slopes)
        return losses[best] / losses.min() - 1, int(np.argmin(losses))

    moved = 0
    for prefix, margin in MARGINS.items():
        for way, reach in (("down", 0.5), ("up", 2.0)):
            end: End = getattr(changes[name], prefix + way)
            sign = 1 if way == "up" else -1
            steps = np.linspace(1, end.factor, 20)[:-1]
            assert all(lost(factor)[0] <= margin + 1e-9 for factor in steps)
            if end.by is None:
                assert end.factor == pytest.approx(reach)
                assert lost(reach)[0] <= margin + 1e-9
                continue
            moved += 1
            share, winner = lost(end.factor + sign * 1e-6)
            assert share > margin - 1e-9
            assert winner == number_of(designs, end.by)
    assert moved


@pytest.mark.long
@pytest.mark.parametrize("name", MOVES)
def test_a_tier_may_move_until_another_cell_is_the_best(
    designs: Designs,
    seconds: Callable[[TierFactors], Floats],
    factors: Floats,
    changes: dict[str, Change],
    best: int,
    name: str,
) -> None:
    known = dict[float, Floats]()
    what, dim = MOVES[name]

    def lost(factor: float) -> tuple[float, int]:
        if factor not in known:
            scale = (factor, 1.0) if dim == 0 else (1.0, factor)
            known[factor] = seconds(UNCHANGED_TIERS._replace(**{what: scale})) * factors
        losses = known[factor]
        return losses[best] / losses.min() - 1, int(np.argmin(losses))

    for prefix, margin in MARGINS.items():
        for way, reach in (("down", 0.5), ("up", 2.0)):
            end: End = getattr(changes[name], prefix + way)
            assert lost(end.factor)[0] <= margin + 1e-9
            if end.by is None:
                assert end.factor == reach
            else:
                assert end.lost_at is not None
                assert 1 < (end.lost_at / end.factor) ** (1 if way == "up" else -1) <= 1.005
                share, winner = lost(end.lost_at)
                assert share > margin
                assert winner == number_of(designs, end.by)


@pytest.mark.long
def test_a_model_may_grow_until_another_cell_is_the_best(
    designs: Designs, factors: Floats, changes: dict[str, Change], best: int
) -> None:
    change = changes["layers of the model (4)"]
    for way, layers in (("down", (2,)), ("up", (5,))):
        near, far = (getattr(change, each) for each in (way, f"near_{way}"))
        for n in layers:
            losses = times_of(designs, n) * factors
            lost = losses[best] / losses.min() - 1
            for end, margin in ((near, 0.0), (far, 0.01)):
                within = min(4, end.factor * 4) <= n <= max(4, end.factor * 4)
                assert lost <= margin + 1e-9 or not within
                if end.by is not None and n == next_to(end.factor, way):
                    assert lost > margin
                    assert int(np.argmin(losses)) == number_of(designs, end.by)


def test_other_numbers_of_layers_are_bounded_as_by_themselves(composed: ComposedConfig) -> None:
    """Also where plans fit that did not before, whatever number was asked for first."""
    full = replace(composed, config=composed.config.with_values({"npu.memory": "2 GB", LAYERS: 48}))
    designs = Designs(full)
    designs.bounds(0)
    found = [len(designs)]
    for layers in (24, 8):
        own = designs.with_changes({LAYERS: layers}, np.inf)
        fresh = Designs(replace(full, config=full.config.with_values({LAYERS: layers})))
        for i, first in enumerate(fresh.cells.first[:-1].tolist()):
            assert (own.bounds(i) == fresh.bounds(i)).all()
            assert own.compose(first)[0] == fresh.compose(first)[0]
        assert len(own) == len(fresh)
        found.append(len(own))
    assert found == sorted(set(found))


def next_to(factor: float, way: str) -> int:
    """The first number of layers beyond an end."""
    return round(factor * 4) + (1 if way == "up" else -1)


def times_of(designs: Designs, layers: int) -> Floats:
    """The simulated seconds of all cells for a model of so many layers."""
    found = []
    for number in range(len(designs)):
        config = designs.compose(number)[1].config.with_values({LAYERS: layers})
        try:
            program = build_program(config)
        except InfeasibleError:
            found.append(np.inf)
            continue
        found.append(run_batch(program, program.bandwidth[None]).time[0] / 1e12)
    return np.array(found)


@pytest.mark.long
def test_the_rival_is_the_second_best_of_all_simulated(
    designs: Designs,
    seconds: Callable[[TierFactors], Floats],
    factors: Floats,
    found: Changes,
    best: int,
) -> None:
    losses = seconds(UNCHANGED_TIERS) * factors
    losses = losses / losses[best]
    losses[best] = np.inf
    rival = found.rival
    assert rival is not None
    assert rival.factor == pytest.approx(losses.min(), rel=1e-9)
    assert number_of(designs, rival.by) == int(np.argmin(losses))
    both = [designs.compose(n)[1].config for n in (best, int(np.argmin(losses)))]
    assert compute_confidence(1.0, *both) is None
    assert rival.elsewhere
    assert rival.sure == compute_confidence_on_measured_network(math.log(rival.factor), *both)
    assert 0.5 < rival.sure < compute_confidence_on_measured_network(1.0, *both) < 1
    other = [config.with_values({"npu.machines": []}) for config in both]
    assert compute_confidence_on_measured_network(1.0, *other) is None


@pytest.mark.long
def test_where_too_many_may_come_next_the_best_simulated_one_is_told(
    designs: Designs,
    seconds: Callable[[TierFactors], Floats],
    factors: Floats,
    found: Changes,
    best: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    losses = seconds(UNCHANGED_TIERS) * factors
    third = int(np.argsort(losses)[2])
    monkeypatch.setattr("dimsweep.sweeper.questions.networks.race._MAX_SIMULATIONS", 0)
    known = KnownCells(designs, best, {best: losses[best], third: losses[third]})
    rival = _find_rival(known)
    assert rival.is_open and number_of(designs, rival.by) == third
    assert rival.factor == pytest.approx(losses[third] / losses[best])
    assert rival.at_least is not None and found.rival is not None
    assert rival.at_least <= found.rival.factor + 1e-9 <= rival.factor + 1e-9


@pytest.mark.long
def test_a_design_by_another_name_is_not_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "twins.yaml"
    file.write_text(TWINS)
    plan = plan_study(compose([f"study={file}", f"results={tmp_path}"]))
    run(plan)
    report = read_report(plan.folder)
    proof = report.study.proof
    assert proof is not None and proof.rival is not None and proof.rival.by is not None
    assert (len(report.tried), len(report.found)) == (4, 2)
    assert [cell.cell.coordinates for cell in report.ordered[1:]] == [proof.rival.by]
    assert proof.rival.factor > 1.01


@pytest.mark.long
def test_gains_of_a_network_are_against_the_baseline(tmp_path: Path) -> None:
    file = tmp_path / "today.yaml"
    file.write_text(f"{TWINS}what_if: null\n{TODAY}")
    plan = plan_study(compose([f"study={file}", f"results={tmp_path}"]))
    run(plan)
    report = read_report(plan.folder)
    best = report.ordered[0]
    assert best.reference is not None and best.reference.is_common
    today = compose([f"study={file}"]).config.with_values(
        {
            "topology.shape": "Ring(2)_Switch(4)",
            "topology.bandwidth": ["450 GB/s", "25 GB/s"],
            "topology.latency": best.study.config_of(best.cell)["topology"]["latency"],
            "topology.tiers": ["package", "pod"],
            "workload.parallel": {"tensor": 2, "data": 4},
        }
    )
    assert best.reference.row["time_s"] == simulate(today, build_program(today)).time
    gain = best.reference.row["time_s"] / best.best["time_s"]
    assert best.gain(best.objective) == pytest.approx(gain) and gain > 1.2
    assert f"{gain:.2f}x faster than the baseline" in report.headline


@pytest.mark.long
def test_each_region_is_won_by_the_best_of_all_simulated(
    designs: Designs,
    seconds: Callable[[TierFactors], Floats],
    factors: Floats,
    found: Changes,
    best: int,
) -> None:
    regions, config = found.regions, designs.composed.config
    assert regions is not None
    assert regions.x in PRICES
    twice = designs.slopes(config.with_values(resolve(config, PRICES[regions.x])))
    places = [designs.cells.candidates(row) for row in designs.cells.rows]
    slopes = np.concatenate([designs.cells.places.select_networks(twice, each) for each in places])
    numbers = [number_of(designs, each) for each in regions.designs]
    assert numbers[0] == best
    assert regions.winners[regions.ys.index(1)][regions.xs.index(1)] == 0
    assert len({winner for row in regions.winners for winner in row}) == len(numbers) > 1
    for y, row in zip(regions.ys, regions.winners, strict=True):
        times = moved_by(designs, seconds, regions.y, y)
        for x, winner in zip(regions.xs, row, strict=True):
            losses = times * (factors + (x - 1) * slopes)
            assert losses[numbers[winner]] == pytest.approx(losses.min(), rel=1e-8)


def moved_by(
    designs: Designs, seconds: Callable[[TierFactors], Floats], name: str, factor: float
) -> Floats:
    if name not in MOVES:
        return times_of(designs, round(4 * factor))
    what, dim = MOVES[name]
    return seconds(UNCHANGED_TIERS._replace(**{what: (factor, 1.0) if dim == 0 else (1.0, factor)}))


def test_who_comes_next_is_told_with_how_sure_that_is() -> None:
    named, by = {"a": "1", "b": "2"}, {"a": "1", "b": "3"}

    def told(**changes: object) -> str:
        proof = Proof(cells=9, excluded=(8, 0, 0), bounded=1, simulated=1)
        return next_to_it(proof.model_copy(update={"rival": Rival(**changes)}), named)

    assert told(factor=1.004, by=by).startswith(
        "the next design, a 1, b 3, is 0.4% behind (a tie): "
    )
    assert told(factor=1.05, by=by, sure=0.7).endswith("this order with 70% probability")
    assert "no measured run covers" in told(factor=1, by=by, sure=0.7, elsewhere=True)
    assert told(factor=2.0) == "no other design is within x2 of it"
    assert told(factor=1.2, is_open=True) == (
        "no other design is less than 20% behind, and no other one was simulated"
    )


@pytest.mark.long
def test_the_report_tells_what_would_change_the_answer(
    composed: ComposedConfig, found: Changes
) -> None:
    plan = plan_study(composed)
    run(plan)
    proof, report = proof_of(plan), read_report(plan.folder)
    assert Changes(proof.changes, proof.rival, proof.regions) == found
    (sheet,) = [
        each for each in tabulate_study(report) if each.title == "What would change the answer"
    ]
    *names, beside_others = (row[0] for row in sheet.rows)
    assert names == [each.name for each in proof.changes]
    assert beside_others == "simulated time against others"
    assert "the next design, " in report.ties
    drawn = design_of_answer(report)
    assert drawn is not None
    assert [part.axes for part in drawn.parts] == ["data 4", "data 4"]
    (told,) = [each for each in answers(report) if each.question == sheet.title]
    nearest = min(
        (end for each in proof.changes for end in (each.near_down, each.near_up) if end.by),
        key=lambda end: max(end.factor, 1 / end.factor),
    )
    at = nearest.factor if nearest.lost_at is None else nearest.lost_at
    assert f"{at:.4g} times" in told.short or f"{round(4 * at)} or" in told.short
    assert "better by more than 1%" in told.rest
    run(plan)
    assert proof_of(plan) == proof


@pytest.mark.parametrize("zero", [[0], [0, 1, 2, 3]])
def test_cells_that_communicate_alike_are_bounded_as_by_themselves(
    composed: ComposedConfig, zero: list[int]
) -> None:
    space = {"space.plan.zero": zero, "space.plan.pipeline": [1, 2, 4]}
    designs = Designs(replace(composed, config=composed.config.with_values(space)))
    cells, random = designs.cells, np.random.default_rng(1)
    for moved in (
        UNCHANGED_TIERS,
        TierFactors(bandwidth=(2.0, 0.7)),
        TierFactors(latency=(0.5, 2.0)),
    ):
        for i, row in enumerate(cells.rows):
            alone = replace(cells.places.reach(row, moved), classes={}, _known={}, _examples={})
            staging = cells.stagings.build_staging(row.plan, row.degrees)
            whole = bound_time(staging, row.plan, row.turns, alone, cells.stagings)
            assert cells.bound_loads(i, moved) == pytest.approx(whole, rel=1e-13)
            some = np.flatnonzero(random.random(len(whole)) < 0.3)
            assert cells.bound_loads(i, moved, some) == pytest.approx(whole[some], rel=1e-13)


def test_interruptions_may_be_more_until_another_size_is_the_best(composed: ComposedConfig) -> None:
    """The same as all cells say, each with what is left of its time."""
    words = {"objective": "effective_time", "space.network.npus": {"at_least": 4, "at_most": 32}}
    tiers = composed.config.value("space.network.tiers")
    tiers[1] |= {"sizes": [1, 2, 4, 8], "blocks": ["Switch"], "bandwidth": ["50 GB/s"]}
    words |= {"space.network.tiers": tiers, "space.plan.tensor": [1], "space.plan.pipeline": [1]}
    words |= {"reliability.restart": "2 min", "reliability.checkpoint.stall": "10 s"}
    words |= {"reliability.npu_time": "0.05 day"}
    own = replace(composed, config=composed.config.with_values(words))
    designs = Designs(own)
    cells = [designs.plan(number) for number in range(len(designs))]
    programs = [cell.program for cell in cells if isinstance(cell, PlannedCell)]
    times = np.array([run_batch(each, each.bandwidth[None]).time[0] for each in programs]) / 1e12

    def losses(factor: float) -> Floats:
        changes = {"reliability.npu_time": f"{0.05 / factor} day"}
        other = Designs(replace(own, config=own.config.with_values(changes)))
        return times * np.concatenate([other.loss_factors(row) for row in other.cells.rows])

    best = int(np.argmin(losses(1.0)))
    (change,) = (
        each for each in find_changes(designs, best).changes if each.name == "interruptions"
    )
    assert change.down.by is None and change.up.by is not None
    within, beyond = change.up.factor, change.up.factor * 2 ** (1 / 8)  # the step that is looked at
    assert all(int(np.argmin(losses(factor))) == best for factor in (0.5, within))
    winner = number_of(designs, change.up.by)
    assert winner == int(np.argmin(losses(beyond))) != best
    assert programs[winner].n_npus < programs[best].n_npus
