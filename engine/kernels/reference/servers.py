"""Servers of memories that several ranks share, as engine.kernels.core.servers has them.

The rule is told once more in plain Python.  A server with B bytes/s serves n accesses in flight at
B / n each; here, where an access has only what it would take alone, that is n times as long.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dimsweep.engine.kernels.messages.run import whole_picoseconds
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.lower.program import Structure


@dataclass(eq=False)
class _Access:
    own: float  # ps that it takes at least
    uses: Sequence[tuple[int, int, float]]  # server, NPUs, ps that one of them takes alone
    latency: int
    done: Callable[[], None]
    since: int
    takes: float = 0.0  # ps, of all of it
    left: float = 1.0
    due: int = -1  # when its bytes have moved, as its servers are now


class Servers:
    """All servers of a program, and the accesses that they serve."""

    def __init__(self, clock: Clock, s: Structure) -> None:
        self._clock, self._services, self._uses = clock, s.services, s.server_uses.tolist()
        self._n_served: Counter[int] = Counter()  # NPUs, by server
        self._in_flight: dict[_Access, None] = {}
        self._changed = False

    def begin(self, number: int, done: Callable[[], None]) -> None:
        """Serve an access as service ``number`` says; call ``done`` when it ends."""
        service = self._services[number]
        uses = self._uses[service["use_start"] : service["use_end"]]
        access = _Access(service["own"], uses, int(service["latency"]), done, self._clock.ps)
        self._in_flight[access] = None
        self._serve(access, 1)

    def settle(self) -> None:
        """Give every access in flight its share of now."""
        if not self._changed:
            return
        self._changed, now = False, self._clock.ps
        for access in self._in_flight:
            takes = max(access.own, *(self._n_served[i] * alone for i, _, alone in access.uses))
            if takes == access.takes:
                continue
            if access.takes:
                access.left -= (now - access.since) / access.takes
            access.since, access.takes = now, takes
            delay = whole_picoseconds(max(access.left, 0.0) * takes)
            access.due = now + delay
            self._clock.later(delay, partial(self._end, access))

    def _end(self, access: _Access) -> None:
        """Its bytes have moved, unless its share has changed since that was foreseen."""
        if access not in self._in_flight or access.due != self._clock.ps:
            return
        del self._in_flight[access]
        self._serve(access, -1)
        if access.latency:
            self._clock.later(access.latency, access.done)
        else:
            access.done()

    def _serve(self, access: _Access, sign: int) -> None:
        for server, npus, _ in access.uses:
            self._n_served[server] += sign * npus
        self._changed = True
        self._clock.touch()
