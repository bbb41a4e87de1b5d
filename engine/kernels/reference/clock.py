"""Simulated time: SimPy's environment, counting whole picoseconds."""

import math
from collections.abc import Callable, Sequence

import simpy
from simpy.events import EventPriority

from dimsweep.engine.errors import DimsweepError

_LAST = EventPriority(9)  # after SimPy's own priorities, so after all else at the instant


class Clock(simpy.Environment):
    """A SimPy environment whose times and delays are whole picoseconds.

    Events of one instant happen in the order in which they were planned, as in all of SimPy.  When
    no event is left of an instant at which :meth:`touch` was called, all functions in ``settling``
    are called, in their order; they may plan more events for the instant.
    """

    def __init__(self) -> None:
        super().__init__()
        self.settling: Sequence[Callable[[], None]] = ()
        self._is_touched = False

    @property
    def ps(self) -> int:
        """Present time (ps)."""
        return int(self.now)

    def call_later(self, delay: int, call: Callable[[], object]) -> None:
        """Call the function ``call`` in ``delay`` ps."""

        def happen(_: simpy.Event) -> None:
            call()

        self.timeout(delay).callbacks.append(happen)

    def touch(self) -> None:
        """Request that the functions in ``settling`` are called at the end of this instant."""
        if not self._is_touched:
            self._is_touched = True
            event = simpy.Event(self)
            event._ok, event._value = True, None  # as SimPy's own events that are certain to happen
            event.callbacks.append(self._settle)
            self.schedule(event, _LAST)

    def _settle(self, _: simpy.Event) -> None:
        self._is_touched = False
        for settle in self.settling:
            settle()

    def run_until_idle(self, elsewhere: Callable[[float], None] | None = None) -> None:
        """Run until no event is left.

        ``elsewhere`` is called before time advances, with the time of the next event here (infinity
        if there is none); it may plan earlier events.

        SimPy raises a copy of an error that a process raised, without the place of its
        :class:`DimsweepError`; its cause is the original.
        """
        try:
            while elsewhere is not None:
                if self.peek() > self.now:
                    elsewhere(self.peek())
                if self.peek() == math.inf:
                    return
                self.step()
            self.run()
        except DimsweepError as error:
            raise error.__cause__ or error from None
