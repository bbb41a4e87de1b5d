"""A grid has every point once, and makes none before it is asked for."""

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.search import Task
from dimsweep.sweeper.search.blocks import GridSampler, grid_size
from dimsweep.sweeper.space.space import Choice, Parameter, Range, Space
from dimsweep.sweeper.space.split import SplitSpace
from tests.support.refused import refused
from tests.support.studies import planned


def splits(total: int, *constraints: str) -> SplitSpace:
    return SplitSpace(
        3,
        total=total * 1e9,
        minimum=[1e9] * 3,
        maximum=[total * 1e9] * 3,
        step=1e9,
        constraints=constraints,
    )


def task(split: SplitSpace | None, parameters: Mapping[str, Parameter]) -> Task:
    return Task("grid", Search(sampler="grid"), Space(split, parameters), (TIME,))


@pytest.mark.parametrize("constraint", ["b0 >= b1", "b0 == 2 * b1", "b0 + b1 <= 3 * b2"])
def test_all_splits_are_those_that_obey_the_rules(constraint: str) -> None:
    found = np.concatenate(list(splits(40, constraint).iterate_splits())) / 1e9
    wanted = [
        (b0, b1, 40 - b0 - b1)
        for b0, b1 in itertools.product(range(1, 39), repeat=2)
        if b0 + b1 < 40 and eval(constraint, {"b0": b0, "b1": b1, "b2": 40 - b0 - b1})
    ]
    assert [tuple(row) for row in found.tolist()] == wanted


def test_keys_are_combined_with_splits() -> None:
    own = task(splits(5), {"a": Choice((2, 1)), "b": Range(1.0, 2.0, 0.5, False, False, "us")})
    trials = GridSampler(own).ask(1000)
    assert len(trials) == grid_size(own, 1000) == 2 * 3 * 6
    assert grid_size(own, 20) == 20
    assert trials.bandwidth is not None
    rows = zip(trials, trials.bandwidth.tolist(), strict=True)
    keys = [(t.parameters["a"], t.parameters["b"], tuple(split)) for t, split in rows]
    assert len(set(keys)) == len(keys)
    assert [a for a, _, _ in keys] == [2] * 18 + [1] * 18
    assert [b for _, b, _ in keys[::6]] == ["1.0 us", "1.5 us", "2.0 us"] * 2


def test_it_goes_on_in_the_middle_of_a_block() -> None:
    own = task(splits(30), {"a": Choice((1, 2, 3))})
    whole, rest = GridSampler(own).ask(10_000), GridSampler(own)
    rest.restore({"asked": 500})
    assert [t.bandwidth for t in rest.ask(9)] == [t.bandwidth for t in whole[500:509]]
    assert len(rest.ask(10_000)) == len(whole) - 509


@pytest.mark.parametrize(("trials", "exhaustive"), [(300, True), (4, True), (3, False)])
def test_a_study_knows_whether_all_of_its_grid_is_tried(
    trials: int, exhaustive: bool, tmp_path: Path
) -> None:
    chunks = "space={bandwidth: {}, parameters: {collective.chunks: {values: [1, 2, 4]}}}"
    bandwidth = "topology.bandwidth=[100 GB/s, 100 GB/s, 100 GB/s, 100 GB/s]"
    words = ["study=libra_gpt3_4d", "space.bandwidth.total=null", bandwidth, "search=grid", chunks]
    plan = planned([*words, f"budget.trials={trials}"], tmp_path)
    (cell,) = plan.study.cells
    # The configuration's own value comes first, and again in the grid's turn.
    assert (cell.exhaustive, cell.trials) == (exhaustive, min(trials, 4))
    other = planned([*words, f"budget.trials={trials}", "search=random"], tmp_path)
    assert not other.study.cells[0].exhaustive


def test_a_range_without_a_step_is_refused() -> None:
    with refused("space.parameters.a", "missing"):
        grid_size(task(None, {"a": Range(1.0, 2.0, None, False, False, "us")}), 10)


def test_a_grid_of_a_trillion_points_begins_at_once() -> None:
    first = next(splits(1_500_000).iterate_splits())
    assert len(first) < 2_000_000, "no more than the values of one dimension"
    assert (first[:3] / 1e9).tolist() == [[1, n, 1_499_999 - n] for n in (1, 2, 3)]
