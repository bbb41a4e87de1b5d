"""Where the axes of a parallel plan lie: LIBRA's placements, and that groups tile the cluster."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError, Group, place
from dimsweep.engine.errors import Code
from dimsweep.engine.workload.placement import AXES
from tests.support.programs import divisors
from tests.support.refused import refused

LIBRA_3D, LIBRA_4D = (16, 8, 32), (4, 8, 4, 32)


@pytest.mark.parametrize(
    ("sizes", "tensor", "tensor_group", "data_group"),
    [
        # GPT-3: TP 16, DP 256.  In 4D both share the 8 NPUs of dimension 1: 4 x 2.
        (LIBRA_3D, 16, Group((16, 1, 1), (1, 1, 1)), Group((1, 8, 32), (16, 1, 1))),
        (LIBRA_4D, 16, Group((4, 4, 1, 1), (1, 1, 1, 1)), Group((1, 2, 4, 32), (4, 4, 1, 1))),
        # MSFT-1T: TP 128, DP 32.
        (LIBRA_3D, 128, Group((16, 8, 1), (1, 1, 1)), Group((1, 1, 32), (16, 8, 1))),
        (LIBRA_4D, 128, Group((4, 8, 4, 1), (1, 1, 1, 1)), Group((1, 1, 1, 32), (4, 8, 4, 1))),
        # ResNet-50 and Turing-NLG: data parallel only.
        (LIBRA_4D, 1, Group((1, 1, 1, 1), (1, 1, 1, 1)), Group(LIBRA_4D, (1, 1, 1, 1))),
    ],
)
def test_libras_plans(
    sizes: tuple[int, ...], tensor: int, tensor_group: Group, data_group: Group
) -> None:
    groups = place({"tensor": tensor, "data": "rest"}, sizes)
    assert groups == {"tensor": tensor_group, "data": data_group}
    assert groups["data"].n_members == 4096 // tensor


def test_a_degree_may_be_given_dimension_by_dimension() -> None:
    groups = place({"tensor": [1, 4, 1, 1], "data": "rest"}, LIBRA_4D)
    assert groups["data"] == Group((4, 2, 4, 32), (1, 4, 1, 1))


def test_the_order_of_axes_is_from_the_inside_out() -> None:
    groups = place({"data": 2, "tensor": 2}, (4,))
    assert groups == {"data": Group((2,), (1,)), "tensor": Group((2,), (2,))}


def test_no_axes_no_groups() -> None:
    assert place({}, (4, 8)) == {}


@st.composite
def plans(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, object]]:
    """A cluster of up to 512 NPUs and axes that fill it, each given in one of the three ways."""
    sizes = tuple(draw(st.lists(st.integers(1, 8), min_size=1, max_size=3)))
    room, axes = list(sizes), {}
    for name in ("a", "b"):
        split = [draw(st.sampled_from(divisors(r))) for r in room]
        axes[name] = split
        room = [r // p for r, p in zip(room, split, strict=True)]
    axes["c"] = draw(st.sampled_from(["rest", room]))
    return sizes, axes


def members(rank: tuple[int, ...], group: Group) -> list[tuple[int, ...]]:
    """The ranks in the group of ``rank``: in dimension d its coordinate may differ by the digit of
    weight strides[d] in base sizes[d]."""
    choices = []
    for x, p, stride in zip(rank, group.sizes, group.strides, strict=True):
        without = x - (x // stride % p) * stride
        choices.append([without + digit * stride for digit in range(p)])
    return list(product(*choices))


@given(plans())
def test_groups_of_all_axes_tile_the_cluster(plan: tuple[tuple[int, ...], dict]) -> None:
    sizes, axes = plan
    groups = place(axes, sizes)
    ranks = list(product(*map(range, sizes)))

    degree = 1
    for group in groups.values():
        degree *= group.n_members
    assert degree == len(ranks)

    group_of = {}
    for axis, group in groups.items():
        mine = group_of[axis] = {rank: frozenset(members(rank, group)) for rank in ranks}
        # Every rank is in exactly one group: membership is mutual and all groups are of one size.
        for rank, mates in mine.items():
            assert rank in mates and len(mates) == group.n_members
            assert all(mine[mate] == mates for mate in mates)

    # Two axes meet in one rank only, so that each rank has its own place on all axes.
    for rank in ranks:
        shared = set(ranks)
        for mine in group_of.values():
            shared &= mine[rank]
        assert shared == {rank}


@pytest.mark.parametrize(
    ("axes", "sizes", "where", "code", "named"),
    [
        ({"tensor": 3, "data": "rest"}, (4, 8), "tensor", "infeasible", "3"),
        ({"tensor": 64, "data": "rest"}, (4, 8), "tensor", "infeasible", "[4, 8]"),
        ({"tensor": 0}, (4,), "tensor", "out-of-range", "0"),
        ({"tensor": -2, "data": "rest"}, (4,), "tensor", "out-of-range", "-2"),
        ({"tensor": [2, 3], "data": "rest"}, (4, 8), "tensor[1]", "infeasible", "3"),
        ({"tensor": [0, 8], "data": "rest"}, (4, 8), "tensor[0]", "infeasible", "0"),
        ({"tensor": [2], "data": "rest"}, (4, 8), "tensor", "mismatch", "1"),
        ({"tensor": "all"}, (4, 8), "tensor", "wrong-type", "'all'"),
        ({"tensor": 4, "data": 4}, (4, 8), "", "infeasible", "tensor 4 x data 4 = 16"),
        (
            {"tensor": 4, "data": 16},
            (4, 8),
            "data",
            "infeasible",
            "tensor 4 x data 16 = 64",
        ),
        (
            {"tensor": 2, "data": 3, "pipeline": "rest"},
            (4, 8),
            "data",
            "infeasible",
            "tensor 2 x data 3 = 6",
        ),
        ({"tensor": 10**18}, (4, 8), "tensor", "infeasible", "1000000000000000000"),
        ({"tensor": 10**18}, (10**7 - 1, 10**7 - 3, 10**7), "tensor", "infeasible", ""),
    ],
)
def test_bad_plans_are_refused_with_the_reason(
    axes: dict[str, object], sizes: tuple[int, ...], where: str, code: Code, named: str
) -> None:
    with refused(where, code, named):
        place(axes, sizes)


@pytest.mark.parametrize(
    ("degree", "sizes"), [(3, (4, 8)), (8, (9, 7)), (8, (63,)), (5, (4, 9)), (64, (4, 8))]
)
def test_the_degrees_of_a_hint_fit(degree: int, sizes: tuple[int, ...]) -> None:
    with pytest.raises(DimsweepError) as error:
        place({"tensor": degree, "data": "rest"}, sizes)
    named = error.value.hint.partition(" would")[0].split(" or ")
    for other in map(int, named):
        place({"tensor": other, "data": "rest"}, sizes)


def test_an_unfilled_cluster_gets_advice() -> None:
    with refused("", "infeasible", "data: rest"):
        place({"tensor": 4, "data": 4}, (4, 8))


def test_a_misspelt_axis_is_refused_with_the_nearest_name() -> None:
    with refused("tensr", "unknown-name", "'tensr'", "'tensor'"):
        place({"tensor": 2, "data": "rest", "tensr": 2}, (4, 8), AXES)
    own = place({"model": 4, "data": "rest"}, (4, 8), {*AXES, "model"})
    assert own == place({"model": 4, "data": "rest"}, (4, 8))


@pytest.mark.parametrize(
    ("axes", "left"),
    [
        ({"tensor": 2, "data": "rest", "pipeline": 4}, 8),
        ({"data": "rest", "pipeline": 4}, 16),
        ({"data": "rest", "pipeline": 64}, 1),
        ({"tensor": [2, 1, 1], "data": "rest", "pipeline": [1, 2, 2]}, [1, 2, 4]),
    ],
)
def test_a_pipeline_that_is_named_after_the_rest_lies_outermost(
    axes: dict[str, object], left: object
) -> None:
    named = {name: left if axis == "rest" else axis for name, axis in axes.items()}
    assert place(axes, (2, 4, 8)) == place(named, (2, 4, 8))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "axes",
    [
        {"data": "rest", "tensor": 2},
        {"tensor": 2, "data": "rest", "expert": 4},
        {"tensor": 2, "data": "rest", "pipeline": [1, 4, 1]},
    ],
)
def test_rest_lies_outside_of_what_an_override_adds(axes: dict[str, object]) -> None:
    last = {**{name: axis for name, axis in axes.items() if axis != "rest"}, "data": "rest"}
    assert place(axes, (2, 4, 8)) == place(last, (2, 4, 8))  # type: ignore[arg-type]


def test_what_is_added_lies_inside_a_pipeline_that_is_named_after_the_rest() -> None:
    found = place({"data": "rest", "pipeline": 4, "tensor": 2}, (2, 4, 8))
    assert found == place({"tensor": 2, "data": 8, "pipeline": 4}, (2, 4, 8))
