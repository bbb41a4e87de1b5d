"""ASTRA-sim's event queue: nanoseconds, events of one instant in the order of their insertion.

Each NPU keeps lists of callables by tick.  Only the first one registered for a tick enters the
global queue; the others ride along, so an NPU's callables of a tick run together at the place of
the first, and what is registered for the tick meanwhile joins them.
"""

import heapq
from collections.abc import Callable

Call = Callable[[], None]


class Clock:
    """ASTRA-sim's event queue: what is called at which time (ns)."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._n = 0

    def at(self, time: int, call: Call) -> None:
        """Run ``call`` at ``time``, after all that was inserted for it before."""
        self._n += 1
        heapq.heappush(self._heap, (time, self._n, call))

    def run(self) -> None:
        """Run until nothing is left to happen."""
        while self._heap:
            self.now, _, call = heapq.heappop(self._heap)
            call()


class Timers:
    """The callables of one NPU."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lists: dict[int, list[Call]] = {}

    @property
    def now(self) -> int:
        return self._clock.now

    def register(self, delay: int, call: Call) -> None:
        """Run ``call`` in ``delay`` ns, with all else that this NPU does at that tick."""
        tick = self._clock.now + delay
        calls = self._lists.get(tick)
        if calls is None:
            self._lists[tick] = [call]
            self._clock.at(tick, lambda: self._walk(tick))
        else:
            calls.append(call)

    def _walk(self, tick: int) -> None:
        calls = self._lists[tick]
        for call in calls:  # grows while it is walked
            call()
        del self._lists[tick]
