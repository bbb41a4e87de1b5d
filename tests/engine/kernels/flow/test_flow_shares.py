"""Shares that are found around what has changed are those that are found for all flows at once."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.flow import fair_rates, simulate_flows
from dimsweep.engine.kernels.packet import Fabric, Flow, Port
from tests.support.examples import examples

GBPS = 10**9
SWITCHES = range(5)  # all of which are linked, and a host at each of them
HOST = 10
LINKS = [*permutations(SWITCHES, 2), *((HOST + i, i) for i in SWITCHES)]
LINKS += [(i, HOST + i) for i in SWITCHES]

rates = st.lists(
    st.sampled_from([10 * GBPS, 25 * GBPS, 40 * GBPS]), min_size=len(LINKS), max_size=len(LINKS)
)
ways = st.tuples(st.permutations(SWITCHES), st.integers(2, 5)).map(
    lambda drawn: (HOST + drawn[0][0], *drawn[0][: drawn[1]], HOST + drawn[0][drawn[1] - 1])
)
sizes, starts = st.integers(1, 10**5), st.integers(0, 10**8) | st.just(0)
flows = st.lists(
    st.builds(
        lambda way, size, start: Flow(size, way, way[::-1], start=start), ways, sizes, starts
    ),
    min_size=1,
    max_size=24,
)
# Each by two or three ways through the switches between the first and the last one.
sprayed = st.lists(
    st.builds(
        lambda ends, between, size, start: _sprayed(*ends, between, size, start),
        st.permutations(SWITCHES).map(lambda drawn: drawn[:2]),
        st.lists(st.lists(st.sampled_from(SWITCHES), max_size=2, unique=True), min_size=2),
        sizes,
        starts,
    ),
    min_size=1,
    max_size=8,
)


def _sprayed(a: int, b: int, between: list[list[int]], size: int, start: int) -> Flow:
    ways = [(HOST + a, a, *(s for s in way if s not in (a, b)), b, HOST + b) for way in between]
    (first, back), *more = [(way, way[::-1]) for way in ways[:3]]
    return Flow(size, first, back, start=start, sprayed=tuple(more))


@examples(40)
@given(rates, flows)
def test_every_flow_ends_when_it_does_if_all_shares_are_found_anew(
    speeds: list[int], drawn: list[Flow]
) -> None:
    _check(dict(zip(LINKS, speeds, strict=True)), drawn)


@examples(40)
@given(rates, flows, sprayed)
def test_so_does_every_flow_that_takes_several_ways_at_once(
    speeds: list[int], drawn: list[Flow], more: list[Flow]
) -> None:
    _check(dict(zip(LINKS, speeds, strict=True)), [*drawn[:8], *more])


def test_a_flow_of_several_ways_goes_at_the_rate_that_the_fullest_of_its_links_allows() -> None:
    """Half of it takes a link that another flow shares, so of 10 Gb/s this one has 2/3, and both
    go at the same rate; the other way has room to spare."""
    ends = {(HOST, 0): 100, (1, HOST + 1): 100, (HOST + 2, 0): 100, (1, HOST + 3): 100}
    speeds = ends | {(0, 1): 10, (0, 2): 10, (2, 1): 10}
    speeds |= {link[::-1]: rate for link, rate in speeds.items()}
    direct, round_about = (HOST, 0, 1, HOST + 1), (HOST, 0, 2, 1, HOST + 1)
    both = Flow(1, direct, direct[::-1], sprayed=((round_about, round_about[::-1]),))
    other = (HOST + 2, 0, 1, HOST + 3)
    ports = [Port(a, b, rate * GBPS, 0) for (a, b), rate in speeds.items()]
    fabric = Fabric(ports, dict.fromkeys((0, 1, 2), 1 << 20))
    rates = fair_rates(fabric, [both, Flow(1, other, other[::-1])])
    assert rates * 8 / GBPS == pytest.approx([20 / 3, 20 / 3])
    assert fair_rates(fabric, [both]) * 8 / GBPS == pytest.approx([20])


def test_a_change_that_goes_on_from_link_to_link() -> None:
    """Each flow shares a link with the one before and one with the next; on the first comes one
    more, so that its flow has less, the next one more, and so on for ever."""
    n = 24
    links = {at: (2 * i + 1) * GBPS for i in range(n) for at in ((i, i + 1), (i + 1, i))}
    ends = {(HOST * n + i, i): 400 * GBPS for i in range(n + 1)}
    ends |= {(i, HOST * n + i): 400 * GBPS for i in range(n + 1)}
    ways = [(HOST * n + i, i, i + 1, i + 2, HOST * n + i + 2) for i in range(n - 1)]
    drawn = [Flow(10**5, way, way[::-1]) for way in ways]
    first = (HOST * n, 0, 1, HOST * n + 1)
    _check(links | ends, [*drawn, Flow(10**4, first, first[::-1], start=10**7)])


def _check(speeds: dict[tuple[int, int], int], drawn: list[Flow]) -> None:
    """Every rate is rounded, and every event may then be a picosecond off."""
    ports = [Port(a, b, rate, 0) for (a, b), rate in speeds.items()]
    switches = {node for flow in drawn for node in flow.way[1:-1]}
    run = simulate_flows(Fabric(ports, dict.fromkeys(switches, 1 << 20)), drawn)
    expected = _ends({at: Fraction(rate, 8 * 10**12) for at, rate in speeds.items()}, drawn)
    assert all(abs(a - b) <= 2 * len(drawn) for a, b in zip(run.ends, expected, strict=True))


def _ends(capacities: dict[tuple[int, int], Fraction], drawn: list[Flow]) -> list[int]:
    """When the flows' last bytes have been sent: exact rates, of all of them at every event."""
    left = [Fraction(flow.size) for flow in drawn]
    ends, now, moving = [0] * len(drawn), 0, set[int]()
    starts = sorted(range(len(drawn)), key=lambda i: drawn[i].start)
    while moving or starts:
        shares = _shares(capacities, {i: _links_of(drawn[i]) for i in moving})
        due = {i: now + max(ceil(left[i] / shares[i]), 0) for i in moving}
        until = min([*due.values(), *(drawn[i].start for i in starts[:1])])
        for i in moving:
            left[i] -= shares[i] * (until - now)
        now = until
        for i in [i for i in moving if due[i] == now]:
            ends[i] = now
            moving.remove(i)
        while starts and drawn[starts[0]].start <= now:
            moving.add(starts.pop(0))
    return ends


def _links_of(flow: Flow) -> dict[tuple[int, int], Fraction]:
    """Its links, and the share of its ways that pass each."""
    ways = [flow.way, *(way for way, _ in flow.sprayed)]
    passed = Counter(link for way in ways for link in pairwise(way))
    return {link: Fraction(n, len(ways)) for link, n in passed.items()}


def _shares(
    capacities: dict[tuple[int, int], Fraction],
    ways: dict[int, dict[tuple[int, int], Fraction]],
) -> dict[int, Fraction]:
    """Water filling, a link at a time."""
    room, shares = dict(capacities), dict[int, Fraction]()
    while len(shares) < len(ways):
        open_on = {
            link: [i for i, way in ways.items() if link in way and i not in shares] for link in room
        }
        allowed = {
            link: room[link] / sum(ways[i][link] for i in open_on[link])
            for link in room
            if open_on[link]
        }
        full = min(allowed, key=lambda link: allowed[link])
        for i in open_on[full]:
            shares[i] = allowed[full]
            for link, share in ways[i].items():
                room[link] -= allowed[full] * share
    return shares
