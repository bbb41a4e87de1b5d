"""How long a phase lasts whose members all do the same at the same time.

Then a message to one member leaves when the same message from another one does, so one member alone
tells the duration.  Nothing else is in the way on a network without contention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.replicas.astra_sim.algorithms import Costs, Exchange
from engine.replicas.astra_sim.chunks import Phase
from engine.replicas.astra_sim.clock import Clock, Timers


class TieError(Exception):
    """Two things end at the same tick; single messages would tell which one is first."""


class Profiles:
    """Durations of phases (ns), each worked out once."""

    def __init__(self, way: Callable[[int, int], tuple[float, float]], kind: Sequence[int]) -> None:
        self._way, self._kind = way, kind
        self._known: dict[tuple[object, ...], int] = {}
        self._alike: dict[Sequence[int], bool] = {}

    def apply(self, phase: Phase, ranks: Sequence[int]) -> bool:
        """Whether all members are of a kind, and the algorithm treats them alike."""
        if phase.algorithm in ("custom", "doubleBinaryTree"):
            return False
        if ranks not in self._alike:
            self._alike[ranks] = len({self._kind[rank] for rank in ranks}) == 1
        return self._alike[ranks]

    def duration(self, phase: Phase, ranks: Sequence[int], me: int, costs: Costs) -> int:
        """Of ``phase`` among ``ranks``, as ``me`` sees it."""
        # The dimension and the queue do not matter, the members do.
        key = (phase.kind, phase.algorithm, phase.n_bytes, phase.clockwise, costs.flat, ranks, me)
        if key not in self._known:
            port = _Mirror(me, self._way)
            Exchange(port, costs, phase, ranks, done=port.end).start()
            port.clock.run()
            self._known[key] = port.ended
        return self._known[key]


class _Mirror:
    """A port that gets what it sends."""

    def __init__(self, rank: int, way: Callable[[int, int], tuple[float, float]]) -> None:
        self.rank, self._way = rank, way
        self.clock = Clock()
        self._timers = Timers(self.clock)
        self.ended = -1

    def end(self) -> None:
        self.ended = self.clock.now

    def wait(self, delay: int, call: Callable[[], None]) -> None:
        self._timers.register(delay, call)

    def exchange(
        self, target: int, source: int, n_bytes: int, received: Callable[[], None]
    ) -> None:
        latency, bandwidth = self._way(self.rank, target)
        self.clock.at(self.clock.now + int(latency + n_bytes / bandwidth), partial(received))
