"""The mean speed of training while devices are down some of the time."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.network import Device, Kind
from dimsweep.engine.reliability import Outage, compute_mean_speed, compute_share_down

outages = st.builds(
    Outage,
    st.just("leaf *"),
    st.integers(1, 4),
    st.floats(0.001, 0.5),
    st.lists(st.floats(0.1, 1), min_size=1, max_size=2).map(tuple),
)


@given(st.lists(outages, min_size=1, max_size=2))
def test_it_is_that_of_all_states_each_for_its_share_of_the_time(found: list[Outage]) -> None:
    things = [outage for outage in found for _ in range(outage.count)]
    mean = 0.0
    for state in itertools.product([False, True], repeat=len(things)):
        pairs = list(zip(things, state, strict=True))
        share = math.prod(o.down if down else 1 - o.down for o, down in pairs)
        speed = math.prod(sum(o.speeds) / len(o.speeds) for o, down in pairs if down)
        mean += share * speed
    assert compute_mean_speed(found) == pytest.approx(mean)


def test_what_is_down_is_as_published() -> None:
    """Yan et al., SIGCOMM 2025, section 5.2: no switch of 640, 384 and 256 is down for 83, 89 and
    93 % of the time, where each is for 0.03 %."""
    for count, up in ((640, 0.83), (384, 0.89), (256, 0.93)):
        assert 1 - Outage("switch *", count, 0.0003, (1.0,)).time == pytest.approx(up, abs=0.005)


def test_a_slowdown_is_of_the_mean_speed() -> None:
    assert Outage("leaf *", 8, 0.1, (0.5, 1.0)).slowdown == 1 / 0.75
    assert compute_mean_speed([]) == 1


def test_a_device_says_how_long_it_is_down() -> None:
    day = 86400.0
    assert compute_share_down(Device(Kind.SWITCH, fails=1.0, repair=365.25 * day)) == 0.5
    assert compute_share_down(Device(Kind.SWITCH, fails=0.66, repair=4 * 3600.0)) == pytest.approx(
        0.0003, rel=0.01
    )
    assert compute_share_down(Device(Kind.SWITCH, fails=1.0)) is None
