"""Shares that are found around what has changed are those that are found for all flows at once."""

from fractions import Fraction
from itertools import pairwise, permutations
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.flow import simulate_flows
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
flows = st.lists(
    st.builds(
        lambda way, size, start: Flow(size, way, way[::-1], start=start),
        ways,
        st.integers(1, 10**5),
        st.integers(0, 10**8) | st.just(0),
    ),
    min_size=1,
    max_size=24,
)


@examples(40)
@given(rates, flows)
def test_every_flow_ends_when_it_does_if_all_shares_are_found_anew(
    speeds: list[int], drawn: list[Flow]
) -> None:
    _check(dict(zip(LINKS, speeds, strict=True)), drawn)


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
        shares = _shares(capacities, {i: list(pairwise(drawn[i].way)) for i in moving})
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


def _shares(
    capacities: dict[tuple[int, int], Fraction], ways: dict[int, list[tuple[int, int]]]
) -> dict[int, Fraction]:
    """Water filling, a link at a time."""
    room, shares = dict(capacities), dict[int, Fraction]()
    while len(shares) < len(ways):
        open_on = {
            link: [i for i, way in ways.items() if link in way and i not in shares] for link in room
        }
        full = min(
            (link for link in room if open_on[link]), key=lambda at: room[at] / len(open_on[at])
        )
        share = room[full] / len(open_on[full])
        for i in open_on[full]:
            shares[i] = share
            for link in ways[i]:
                room[link] -= share
    return shares
