"""The links of flows, and what share of a flow's rate each of them carries."""

from collections import Counter
from itertools import chain

import numpy as np

from dimsweep.engine.kernels.core.rows import with_room
from dimsweep.engine.kernels.packet.flows import KnownWays, Taken
from dimsweep.engine.lower.program import Floats, Ints, Longs


class FlowWays:
    """The links that flows have taken so far, one flow's after another's.

    ``shares`` of a flow's rate are empty as long as each flow takes one way; a flow of n ways has
    1/n of its rate on each, so k/n on a link that k of them pass.
    """

    def __init__(self, known: KnownWays) -> None:
        self._known, self._n = known, 0
        self._at: dict[int, tuple[int, int]] = {}  # by the number of the flow's first way
        self.routes: Ints = np.zeros(0, np.int32)
        self.shares: Floats = np.zeros(0)

    def take(self, taken: Taken) -> tuple[Longs, Longs]:
        """Where the links of each of these flows begin in ``routes``, and where they end."""
        ways, n_ways = taken.flows["ways"], taken.flows["n_ways"]
        numbers, first, which = np.unique(ways, return_index=True, return_inverse=True)
        for number, n in zip(numbers.tolist(), n_ways[first].tolist(), strict=True):
            if number not in self._at:
                self._add(number, n)
        found = np.array([self._at[number] for number in numbers.tolist()], np.int64)
        at = found.reshape(-1, 2)[which]
        return at[:, 0], at[:, 1]

    def _add(self, number: int, n: int) -> None:
        ways = self._known.table[number : number + n]
        spans = zip(ways["data"].tolist(), (ways["ack"] - 1).tolist(), strict=True)
        passed = Counter(chain(*(self._known.routes[start:end].tolist() for start, end in spans)))
        start, self._n = self._n, self._n + len(passed)
        self._at[number] = start, self._n
        self.routes = with_room(self.routes, self._n)
        self.routes[start : self._n] = [*passed]
        if n > 1 and not len(self.shares):
            self.shares = np.ones(len(self.routes))
        if len(self.shares):
            self.shares = with_room(self.shares, self._n)
            self.shares[start : self._n] = [count / n for count in passed.values()]
