"""Simulated time: SimPy's environment, counting whole picoseconds."""

import math
from collections.abc import Callable

import simpy
from simpy.events import EventPriority

from engine.errors import DimsweepError

_LAST = EventPriority(9)  # after SimPy's own priorities, so after all else at the instant


class Clock(simpy.Environment):
    """A SimPy environment whose delays are all whole picoseconds."""

    @property
    def ps(self) -> int:
        """The present time in picoseconds."""
        return int(self.now)

    def run_out(self, elsewhere: Callable[[float], None] | None = None) -> None:
        """Run until nothing is left to happen.

        ``elsewhere`` is called before time goes on, with the time at which something is to happen
        here (infinity if nothing is); it may plan what happens before.

        SimPy raises a copy of an error that a process raised, without what :class:`DimsweepError`
        knows of its place; its cause is the original.
        """
        try:
            if elsewhere is None:
                self.run()
            else:
                self._run_beside(elsewhere)
        except DimsweepError as error:
            raise error.__cause__ or error from None

    def _run_beside(self, elsewhere: Callable[[float], None]) -> None:
        while True:
            if self.peek() > self.now:
                elsewhere(self.peek())
            if self.peek() == math.inf:
                return
            self.step()

    def later(self, delay: int, call: Callable[[], None]) -> None:
        """Call ``call`` in ``delay`` ps."""
        self.timeout(delay).callbacks.append(lambda _: call())

    def last(self, call: Callable[[], None]) -> None:
        """Call ``call`` when all else that happens at this instant has happened."""
        event = simpy.Event(self)
        event._ok, event._value = True, None  # as SimPy's own events that are certain to happen
        event.callbacks.append(lambda _: call())
        self.schedule(event, _LAST)
