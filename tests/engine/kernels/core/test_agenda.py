"""The calendar queue keeps the order of a heap."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.compiler import compiled
from dimsweep.engine.kernels.core import agenda


@compiled
def _plan(a: agenda.Agenda, time: int, what: int) -> int:
    return agenda.plan(a, time, what)


@compiled
def _take(a: agenda.Agenda) -> int:
    return agenda.take(a)


@given(
    st.lists(
        st.one_of(
            st.just(-1),
            st.integers(0, 200),
            st.integers(0, 3),
            st.integers(0, 5 * agenda.BUCKETS),
            st.integers(0, 10**12),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 3, 10]),
    st.sampled_from([1 << 12, agenda.BUCKETS]),
)
def test_events_come_by_time_and_then_as_they_were_planned(
    steps: list[int], shift: int, buckets: int
) -> None:
    """A step plans an event so many ticks from now, or takes one (-1)."""
    ours, heap = agenda.new_agenda(100, shift, buckets), []
    for i, step in enumerate(steps):
        if step >= 0:
            time = int(ours.counts["now"][0]) + step
            heapq.heappush(heap, (time, i))
            _plan(ours, time, i)
        elif heap:
            time, expected = heapq.heappop(heap)
            assert (_take(ours), ours.counts["now"][0]) == (expected, time)
    while heap:
        assert _take(ours) == heapq.heappop(heap)[1]
    assert _take(ours) == -1
