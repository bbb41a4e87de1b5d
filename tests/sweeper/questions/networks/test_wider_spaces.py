"""What else a space of networks may leave open (how many NPUs, their memory, algorithms), and other
limits: the same answer as by simulating every cell."""

from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError, run_batch
from dimsweep.engine.network.generators import Hpn
from dimsweep.engine.workload.plan import Offload
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.network import GeneratorFamily
from dimsweep.sweeper.config.study import Networks, NpuRange
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.part import to_plain
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.shapes import _iterate_tiers
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.loop import StudyPlan
from tests.support.refused import refused
from tests.support.studies import run
from tests.sweeper.questions.networks.test_designs import STUDY, proof_of

PLANS = "space.plan.zero=[1]", "space.plan.tensor=[4]"
RANGE = "space.network.npus={at_least: 8, at_most: 16}"
MEMORY = "+space.network.memory=[{size: 0.7 GB, price: 20 kUSD}, {size: 1.2 GB, price: 24 kUSD}]"
SPILLED = "memory=host", "npu.memory=0.6 GB", "workload.plan.batch=16"
OFFLOAD = "space.plan.offload=[[], [optimizer], [optimizer, weights]]"
LITTLE = "+space.network.memory=[{size: 0.25 GB, price: 20 kUSD}, {size: 0.5 GB, price: 22 kUSD}]"


@pytest.fixture
def which(tmp_path: Path) -> Callable[..., StudyPlan]:
    file = tmp_path / "which.yaml"
    file.write_text(STUDY)
    return lambda *words: plan_study(compose([f"study={file}", *words, f"results={tmp_path}"]))


def simulated(designs: Designs) -> dict[int, float]:
    """The loss of each cell that can be, by its number; no level's bound is above it."""
    found = {}
    for i, first in enumerate(designs.cells.first[:-1].tolist()):
        for m, bound in enumerate(designs.bounds(i).tolist()):
            cell = designs.plan(first + m)
            if isinstance(cell, PrunedCell):
                continue
            seconds = float(run_batch(cell.program, cell.program.bandwidth[None]).time[0]) / 1e12
            loss = seconds * float(designs.loss_factors(designs.cells.rows[i])[m])
            assert cell.plan.bound is not None
            own = cell.plan.objective[0].loss(cell.plan.bound)
            assert designs.floors[i] <= bound * (1 + 1e-12)
            assert bound <= own * (1 + 1e-12) <= loss * (1 + 1e-9)
            found[first + m] = loss
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        (RANGE, "objective=perf_per_cost", *PLANS),
        (MEMORY, "objective=perf_per_cost", "space.plan.pipeline=[1]"),
        (
            "space.network.tiers[1].algorithms=[direct, halving_doubling]",
            "objective=time",
            *PLANS,
        ),
        (*SPILLED, "objective=time", "space.plan.zero=[1]", OFFLOAD),
        (*SPILLED, LITTLE, "objective=perf_per_cost"),
    ],
    ids=["npus", "memory", "algorithms", "offload", "offload what does not fit"],
)
def test_the_best_of_a_wider_space_is_that_of_all_simulated(
    which: Callable[..., StudyPlan], words: tuple[str, ...]
) -> None:
    plan = which(*words)
    designs = plan.stream
    assert isinstance(designs, Designs)
    losses = simulated(designs)
    run(plan)
    proof, objective = proof_of(plan), designs.composed.config.objective[0]
    assert proof.best is not None
    assert objective.loss(proof.best) == pytest.approx(min(losses.values()), rel=1e-12)
    assert proof.bound == proof.best
    assert proof.cells == len(designs)
    assert proof.simulated < len(losses) / 2


def test_networks_have_so_many_npus_at_least(which: Callable[..., StudyPlan]) -> None:
    designs = which(RANGE, "objective=time", *PLANS).stream
    assert isinstance(designs, Designs)
    found = {prod(shape.sizes) for shape in designs.cells.shapes}
    assert found == {8, 16}
    for number in range(len(designs)):
        where = designs.cells.locate(number)
        assert prod(where.row.degrees) == prod(designs.cells.shapes[where.place.shape].sizes)
    alone = [which(f"space.network.npus={n}", "objective=time", *PLANS).stream for n in (8, 16)]
    assert len(designs) == sum(len(each) for each in alone if isinstance(each, Designs))


@given(
    st.integers(1, 40),
    st.integers(0, 12),
    st.lists(st.lists(st.integers(1, 9), unique=True, max_size=4), min_size=1, max_size=3),
)
def test_products_are_all_whose_sizes_make_such_a_number(
    least: int, more: int, sizes: list[list[int]]
) -> None:
    npus = {"at_least": least, "at_most": least + more}
    tier = {"blocks": ["Ring", "Switch"], "bandwidth": ["1 GB/s"], "algorithms": ["ring", "direct"]}
    space = Networks.from_plain({"npus": npus, "tiers": [{**tier, "sizes": own} for own in sizes]})
    every = product(*(own or range(1, least + more + 1) for own in sizes))
    wanted = [each for each in every if least <= prod(each) <= least + more]
    found = list(_iterate_tiers(space.tiers, space.npus))
    assert len(found) == len(set(found)) == sum(4 ** sum(n > 1 for n in each) for each in wanted)
    assert {tuple(dim.size for dim in dims) for dims in found} == set(wanted)


def test_a_number_of_npus_is_written_as_it_was_told() -> None:
    tiers = {"tiers": [{"blocks": ["Ring"], "bandwidth": ["1 GB/s"]}]}
    for npus in (16, {"at_least": 16, "at_most": 20}):
        space = Networks.from_plain({"npus": npus, **tiers})
        assert space.plain()["npus"] == npus
        assert Networks.from_plain(space.plain()) == space
    assert NpuRange.from_plain({"at_least": 16, "at_most": 20}).text == "16 to 20"
    with refused("npus.at_most", "out-of-range", "15", "16"):
        Networks.from_plain({"npus": {"at_least": 16, "at_most": 15}, **tiers})


@pytest.mark.long
def test_npus_cost_what_they_do_with_their_memory(which: Callable[..., StudyPlan]) -> None:
    designs = which(MEMORY, "objective=perf_per_cost", "space.plan.zero=[0, 1]").stream
    assert isinstance(designs, Designs)
    assert {shape.memory for shape in designs.cells.shapes} == {0.7e9, 1.2e9}
    tight = {row.memory > 0.7e9 for row in designs.cells.rows}
    assert tight == {True, False}, "some plans need the larger memory"
    assert designs.refused["networks have too little memory for some plans"] > 0
    for number in range(0, len(designs), 5):
        where, (labels, cell) = designs.cells.locate(number), designs.compose(number)
        shape = designs.cells.shapes[where.place.shape]
        assert where.row.memory <= shape.memory
        assert cell.config.npu.memory == shape.memory
        found = designs.plan(number)
        if isinstance(found, PrunedCell):
            continue
        prices = found.program.cluster.prices
        assert prices is not None
        own = prices.cost(found.program.bandwidth)
        assert float(designs.costs[number]) == pytest.approx(float(own), rel=1e-12)
        assert labels["npu.memory"] == ("0.7 GB" if shape.memory < 1e9 else "1.2 GB")
    plain = designs.composed.config
    twice = plain.with_values({"cost.npu": f"{2 * float(plain.cost.npu)} USD"})
    before = [shape.cost for shape in designs.cells.shapes]
    after = [shape.with_prices(twice, plain).cost for shape in designs.cells.shapes]
    for shape, one, two in zip(designs.cells.shapes, before, after, strict=True):
        own = 16 * (20e3 if shape.memory < 1e9 else 24e3)
        assert two - one == pytest.approx(np.full(len(one), own))


def test_what_cannot_be_is_counted_by_reason(which: Callable[..., StudyPlan]) -> None:
    whole = which("objective=time", *PLANS).stream
    assert isinstance(whole, Designs)
    n = sum(len(shape.cost) for shape in whole.cells.shapes)
    drawn = sorted(watts for shape in whole.cells.shapes for watts in shape.power.tolist())
    fed = drawn[n // 2] / whole.composed.config.cost.power.pue / 2
    for word, reason in (
        ("space.network.tiers[1].radix=7", "networks need a switch with more ports than its radix"),
        (
            f"+space.network.racks={{at_most: 2, power: {fed!r} W}}",
            "networks draw more than the racks feed",
        ),
        (
            "space.network.tiers[1].algorithms=[in_switch]",
            "networks have a block on which its algorithm does not run",
        ),
    ):
        fewer = which(word, "objective=time", *PLANS).stream
        assert isinstance(fewer, Designs)
        left = sum(len(shape.cost) for shape in fewer.cells.shapes)
        assert 0 < fewer.refused[reason] == n - left < n, word
    many = "+space.network.racks={at_most: 2, npus: 5}"
    some = which(RANGE, "objective=time", many, *PLANS).stream
    assert isinstance(some, Designs)
    assert {prod(shape.sizes) for shape in some.cells.shapes} == {8}
    assert some.refused["networks have more NPUs than the racks hold"] == n


def test_networks_that_nodes_with_a_memory_do_not_tile_are_left_out(
    which: Callable[..., StudyPlan],
) -> None:
    twelve = "space.network.npus=12", "workload.plan.batch=24", "space.network.tiers[0].sizes=[3,4]"
    words = *twelve, "space.network.tiers[1].sizes=[3,4]", "objective=time", *PLANS
    whole = which(*words, "memory=node", "memory.npus_per_node=1").stream
    some = which(*words, "memory=node", "memory.npus_per_node=4").stream
    assert isinstance(whole, Designs)
    assert isinstance(some, Designs)
    assert {shape.sizes for shape in whole.cells.shapes} == {(3, 4), (4, 3)}
    assert {shape.sizes for shape in some.cells.shapes} == {(4, 3)}
    left = sum(len(shape.cost) for shape in whole.cells.shapes if shape.sizes == (3, 4))
    assert some.refused["networks are not tiled by nodes that share a memory"] == left


def test_what_is_offloaded_fits_the_remote_memory(which: Callable[..., StudyPlan]) -> None:
    words = *SPILLED, "objective=time", "npu.memory=0.25 GB", *PLANS
    whole = which("space.plan.offload=[[], [optimizer]]", *words).stream
    little = which("space.plan.offload=[[], [optimizer]]", "memory.capacity=0.1 GB", *words).stream
    assert isinstance(whole, Designs)
    assert isinstance(little, Designs)
    over = [row for row in whole.cells.rows if row.remote > 0.1e9]
    assert {row.plan.offload for row in over} == {frozenset({Offload.OPTIMIZER})}
    assert len(little) == len(whole) - sum(len(whole.cells.candidates(row)) for row in over)
    assert little.refused["plans do not fit the remote memory"] > 0


@pytest.mark.parametrize(
    ("word", "where", "what"),
    [
        ("+space.network.racks={at_most: 2}", "space.network.racks.npus", "rack"),
        (
            "space.network.tiers[1].algorithms=[halving]",
            "space.network.tiers[1].algorithms",
            "'halving' runs on none of the blocks",
        ),
        ("space.network.npus={at_least: 17, at_most: 19}", "space.network", "of 17 to 19 NPUs"),
        ("space.network.npus=0", "space.network.npus", "0 is not a number of NPUs"),
    ],
)
def test_what_no_space_is_is_refused(
    which: Callable[..., StudyPlan], word: str, where: str, what: str
) -> None:
    with pytest.raises(DimsweepError, match=what) as error:
        which(word)
    assert error.value.where.split(" ")[0].startswith(where)


@pytest.mark.long
def test_a_generator_with_several_values_is_a_family(which: Callable[..., StudyPlan]) -> None:
    family = "{kind: hpn, npus: 16, radix: [6, 8], rails: [2, 4], bandwidth: 25 GB/s}"
    designs = which(
        f"+space.network.generators=[{family}]", "space.network.tiers=[]", *PLANS
    ).stream
    assert isinstance(designs, Designs)
    made = [shape.generator for shape in designs.cells.shapes]
    can = []
    for radix, rails in product((6, 8), (2, 4)):
        generator = Hpn(npus=16, radix=radix, rails=rails, bandwidth=25e9)
        try:
            generator.build()
        except DimsweepError:
            continue
        can.append(generator)
    assert made == can
    refused = [n for why, n in designs.refused.items() if why.startswith("generated networks")]
    assert sum(refused) == 4 - len(can) > 0
    assert designs.composed.config.space.plain()["network"]["generators"] == [
        {"kind": "hpn", "npus": 16, "radix": [6, 8], "rails": [2, 4], "bandwidth": "25 GB/s"}
    ]


def test_lists_are_several_values_where_one_is_no_list() -> None:
    def members(**entry: object) -> list[object]:
        (found,) = Networks.from_plain({"npus": 16, "generators": [entry]}).generators
        assert isinstance(found, GeneratorFamily)
        assert to_plain(found.text) is not None
        return [*found.members]

    torus = members(kind="ocs_torus", shape=[4, 2, 2])
    assert len(torus) == 1
    assert len(members(kind="ocs_torus", shape=[[4, 2, 2], [4, 4, 1]], cube=[1, 2])) == 4
    with refused("generators[0].n", "missing"):
        members(kind="zcube", n=[])
