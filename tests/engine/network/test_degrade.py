"""What is left of a network, of which something is slower or down."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import Code
from dimsweep.engine.network import (
    Change,
    Kind,
    Level,
    Network,
    Selection,
    build_levels,
    degrade_network,
)
from dimsweep.engine.network.degrade import find_reduced_speeds
from dimsweep.engine.network.routing import Router, Routing
from tests.support.examples import examples
from tests.support.refused import refused

CARD = Level("card", 50e9, 0, share=1)
LEAF = Level("leaf", 50e9, 500, below="card", share=4)
SPINE = Level("spine", 50e9, 500, below="leaf", count=2)
WHOLE = build_levels(8, [CARD, LEAF, SPINE])
BANDWIDTH = {link.name: link.bandwidth for link in WHOLE.links}


def left(*changes: Change) -> dict[str, float]:
    """The bandwidths that differ, by the link; 0 of those that are down."""
    now = {link.name: link.bandwidth for link in degrade_network(WHOLE, changes).links}
    assert now.keys() <= BANDWIDTH.keys()
    return {name: now.get(name, 0.0) for name in BANDWIDTH if now.get(name) != BANDWIDTH[name]}


def slower(**which: object) -> Change:
    return Change(link=Selection(**which), bandwidth=0.5)  # type: ignore[arg-type]


def test_nothing_changes_nothing() -> None:
    assert degrade_network(WHOLE, []) is WHOLE
    assert degrade_network(WHOLE, [Change(npu=Selection("NPU 3"), speed=0.9)]) is WHOLE


@pytest.mark.parametrize(
    ("which", "n"),
    [
        ({"named": "card 3 -> leaf 0"}, 1),
        ({"named": "card 3 <-> leaf 0"}, 2),
        ({"named": "card * -> leaf 0"}, 4),
        ({"named": "leaf * <-> spine 1"}, 4),
        ({"between": (Kind.NPU, Kind.SWITCH)}, 16),
        ({"between": (Kind.SWITCH, Kind.NPU)}, 16),
        ({"named": "leaf *->*", "between": (Kind.SWITCH, Kind.SWITCH)}, 12),
        ({"dim": -1}, 40),
        ({"draw": 3}, 6),
        ({"named": "card * -> leaf *", "draw": 2}, 4),
    ],
)
def test_links_are_chosen_by_name_kind_dimension_and_lot(which: dict[str, object], n: int) -> None:
    found = left(slower(**which))
    assert len(found) == n
    assert all(found[name] == BANDWIDTH[name] / 2 for name in found)


def test_what_is_down_is_gone_with_all_its_links() -> None:
    gone = left(Change(switch=Selection("spine 1"), down=True))
    assert set(gone) == {name for name in BANDWIDTH if "spine 1" in name}
    assert set(gone.values()) == {0.0}


def test_all_links_of_a_device_may_be_slower() -> None:
    of_card = {"NPU 3 -> card 3", "card 3 -> NPU 3", "card 3 -> leaf 0", "leaf 0 -> card 3"}
    assert set(left(Change(switch=Selection("card 3"), bandwidth=0.25))) == of_card
    assert left(Change(npu=Selection("NPU 3"), bandwidth=0.25)).keys() < of_card


@examples(30)
@given(st.integers(0, 99), st.integers(1, 7))
def test_who_draws_more_draws_the_same_and_others(seed: int, draw: int) -> None:
    few, more = (slower(named="card * -> leaf *", draw=n, seed=seed) for n in (draw, draw + 1))
    assert left(few).keys() < left(more).keys()
    assert left(few) == left(few)


def test_lots_do_not_all_fall_alike() -> None:
    drawn = {frozenset(left(slower(draw=1, seed=seed))) for seed in range(20)}
    assert len(drawn) > 5


def test_the_order_of_changes_makes_no_difference() -> None:
    changes = [
        Change(link=Selection("* -> leaf 0"), bandwidth=0.1),
        Change(link=Selection("card 3 -> leaf *"), bandwidth=0.7),
        Change(link=Selection(between=(Kind.SWITCH, Kind.SWITCH)), bandwidth=0.3),
        Change(switch=Selection("spine 0"), down=True),
    ]
    assert len({str(degrade_network(WHOLE, order).links) for order in permutations(changes)}) == 1
    assert left(*changes)["card 3 -> leaf 0"] == pytest.approx(50e9 * 0.021)


def test_routes_avoid_what_is_down() -> None:
    rest = degrade_network(WHOLE, [Change(switch=Selection("spine 0"), down=True)])
    for network, spines in ((WHOLE, {"spine 0", "spine 1"}), (rest, {"spine 1"})):
        router = Router(network, Routing.SHORTEST)
        ways = [router.route(0, 7, way) for way in range(2)]
        passed = {network.links[i].target for way in ways for i in way}
        assert {node for node in passed if "spine" in str(node)} == spines


@pytest.mark.parametrize(
    ("change", "where", "code", "named"),
    [
        (
            Change(switch=Selection("spine *"), down=True),
            "",
            "infeasible",
            "spine 0, spine 1",
        ),
        (
            Change(link=Selection("card 3 -> leaf 0"), down=True),
            "",
            "infeasible",
            "card 3 -> leaf 0",
        ),
        (
            Change(link=Selection("leaf 0 -> card 3"), down=True),
            "",
            "infeasible",
            "leaf 0 -> card 3",
        ),
        (Change(npu=Selection("NPU 3"), down=True), "[0].npu", "conflict", "NPU 3"),
        (
            Change(switch=Selection("leaf 9"), down=True),
            "[0].switch.named",
            "unknown-name",
            "'leaf 9'",
        ),
        (slower(named="card 3 -> lef 0"), "[0].link.named", "unknown-name", "'leaf 0'"),
        (slower(named="NPU 3 -> leaf 0"), "[0].link.named", "unknown-name", "card 3"),
        (slower(named="leaf 0"), "[0].link.named", "bad-syntax", "'leaf 0'"),
        (slower(named="rack * -> *"), "[0].link", "unknown-name", ""),
        (slower(between=(Kind.NPU, Kind.OCS)), "[0].link", "unknown-name", ""),
        (slower(kind=Kind.NIC), "[0].link.kind", "conflict", "devices"),
        (Change(switch=Selection(dim=1), down=True), "[0].switch.dim", "conflict", "links"),
        (
            Change(switch=Selection("spine *", draw=3), down=True),
            "[0].switch.draw",
            "out-of-range",
            "3 of 2",
        ),
        (
            Change(npu=Selection("spine 0"), bandwidth=0.5),
            "[0].npu.named",
            "unknown-name",
            "'spine 0'",
        ),
    ],
)
def test_impossible_changes_are_refused(change: Change, where: str, code: Code, named: str) -> None:
    with refused(where, code, named):
        degrade_network(WHOLE, [change])


@pytest.mark.parametrize(
    ("fields", "where", "code", "named"),
    [
        ({}, "", "missing", "link"),
        ({"down": True}, "", "missing", "link"),
        ({"link": Selection(), "npu": Selection(), "down": True}, "", "conflict", "link and npu"),
        ({"link": Selection()}, "", "missing", "bandwidth"),
        ({"npu": Selection(), "down": True, "speed": 0.5}, "", "conflict", "speed and down"),
        ({"link": Selection(), "speed": 0.5}, "speed", "conflict", "link"),
        ({"npu": Selection(), "speed": 1.5}, "speed", "out-of-range", "150 %"),
        ({"link": Selection(), "bandwidth": 0.0}, "bandwidth", "out-of-range", "0 %"),
    ],
)
def test_a_change_says_one_thing_of_one_kind_of_things(
    fields: dict[str, object], where: str, code: Code, named: str
) -> None:
    with refused(where, code, named):
        Change(**fields)  # type: ignore[arg-type]


def test_shares_of_speed_multiply() -> None:
    changes = [
        Change(npu=Selection("NPU 1*"), speed=0.5),
        Change(npu=Selection("NPU 10"), speed=0.5),
    ]
    assert find_reduced_speeds(changes, 12) == {1: 0.5, 10: 0.25, 11: 0.5}
    assert find_reduced_speeds([Change(npu=Selection("NPU 1"), speed=1.0)], 12) == {}
    assert find_reduced_speeds([], 10**15) == {}  # of which there is no list
    with refused("npu.named", "unknown-name", "'NPU 12'"):
        find_reduced_speeds([Change(npu=Selection("NPU 12"), speed=0.5)], 12)


def test_brackets_in_names_are_letters() -> None:
    network = build_levels(2, [Level("rack[1]", 1e9, 0)])
    half = degrade_network(network, [Change(switch=Selection("rack[1]*"), bandwidth=0.5)])
    assert isinstance(half, Network)
    assert {link.bandwidth for link in half.links} == {5e8}


def test_ranks_may_have_a_part_of_the_network_only() -> None:
    """Rank 0 on NPU 6 and rank 1 on NPU 1; the others pass nothing on, and may be down."""
    part = degrade_network(WHOLE, [], [6, 1])
    assert part.n_npus == 2
    assert len(part.links) == len(WHOLE.links)
    assert {part.devices[node].kind for node in part.graph if "idle" in str(node)} == {Kind.HOST}
    ends = [
        node
        for number in Router(part, Routing.SHORTEST).route(0, 1)
        for node in (part.links[number].target,)
    ]
    assert ends[0] == "card 6"
    assert ends[-2:] == ["card 1", 1]
    idle_down = [
        Change(npu=Selection("NPU 0"), down=True),
        Change(switch=Selection("card 7"), down=True),
    ]
    assert degrade_network(WHOLE, idle_down, [6, 1]).n_npus == 2
    with refused("npu", "conflict", "NPU 6"):
        degrade_network(WHOLE, [Change(npu=Selection("NPU 6"), down=True)], [6, 1])
    with refused("", "infeasible", "NPU 6", "NPU 1"):
        degrade_network(WHOLE, [Change(switch=Selection("leaf 1"), down=True)], [6, 1])


def test_all_npus_in_their_order_are_the_whole() -> None:
    again = degrade_network(WHOLE, [], range(8))
    assert again.links == WHOLE.links
    assert again.devices == WHOLE.devices
