"""A network that is told level by level."""

import pytest

from dimsweep.engine.errors import Code
from dimsweep.engine.network import Level, build_levels
from tests.support.refused import refused

RACK = Level("rack", 25e9, 5_000, share=4)
SPINE = Level("spine", 50e9, 12_500, below="rack", count=3)


def told(links: object) -> set[tuple[object, ...]]:
    return {(each.source, each.target, each.bandwidth, each.latency) for each in links}  # type: ignore[attr-defined]


def test_levels_are_joined_from_the_npus_up() -> None:
    links = told(build_levels(8, [RACK, SPINE]).links)
    assert len(links) == 2 * 8 + 2 * 2 * 3
    assert {(3, "rack 0", 25e9, 5_000), ("rack 1", 7, 25e9, 5_000)} <= links
    assert {("rack 1", "spine 2", 50e9, 12_500), ("spine 0", "rack 0", 50e9, 12_500)} <= links


def test_groups_have_switches_of_their_own_and_a_card_is_one_npus() -> None:
    nodes = Level("NVSwitch", 300e9, 25, share=2, count=2)
    cards = Level("card", 25e9, 0, share=1)
    network = build_levels(4, [nodes, cards, Level("rack", 25e9, 5_000, below="card")])
    links = {link[:2] for link in told(network.links)}
    assert {target for source, target in links if source == 0} == {
        *("NVSwitch 0", "NVSwitch 1"),
        "card 0",
    }
    assert {target for source, target in links if source == 3} == {
        *("NVSwitch 2", "NVSwitch 3"),
        "card 3",
    }
    assert {source for source, target in links if target == "rack 0"} == {
        f"card {i}" for i in range(4)
    }


def test_cables_may_differ() -> None:
    links = told(build_levels(2, [Level("switch", 1e9, (7, 9), dim=0)]).links)
    assert {(0, "switch 0", 1e9, 7), ("switch 0", 1, 1e9, 9)} <= links


@pytest.mark.parametrize(
    ("levels", "where", "code", "named"),
    [
        ([RACK, Level("spine", 1e9, 0, below="rak")], "[1].below", "unknown-name", "'rak'"),
        ([RACK, RACK], "[1].switch", "duplicate", "'rack'"),
        ([Level("npu", 1e9, 0)], "[0].switch", "duplicate", "'npu'"),
        ([Level("rack", 1e9, 0, share=3)], "[0].share", "mismatch", "3"),
        ([Level("rack", 1e9, 0, share=0)], "[0].share", "mismatch", "0"),
        ([Level("rack", 1e9, 0, count=0)], "[0].count", "out-of-range", "65536"),
        ([Level("rack", 1e9, (1, 2))], "[0].latency", "mismatch", "8"),
        ([RACK], "", "invalid", "NPU 0 to NPU 4"),
    ],
)
def test_bad_levels_are_refused(levels: list[Level], where: str, code: Code, named: str) -> None:
    with refused(where, code, named):
        build_levels(8, levels)
