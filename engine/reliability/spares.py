"""Nodes beyond those that a job trains on, which take the place of broken ones."""

import math
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError

_MOST = 100_000  # nodes


@dataclass(frozen=True)
class Spares:
    """So many spare ``nodes`` of ``npus`` each.  A share ``broken`` of all interruptions breaks the
    node of the NPU that they began at, which is back ``repair`` seconds later in the mean.

    A job that lacks a node waits.  As many nodes as there are spares may be in repair while it
    trains, and one more while it waits, when nothing breaks: by Erlang's loss formula (1917), the
    share of the time in which all n + 1 are in repair is

        B(n + 1, a),  B(0, a) = 1,  B(k, a) = a B(k - 1, a) / (k + a B(k - 1, a))

    of a = ``broken`` x ``repair`` / (time between interruptions).  It assumes that nodes break one
    at a time and independently, at the same rate while the job restarts as while it trains, that
    spares do not break before they are used, and that each node is repaired by itself.  How repairs
    are distributed about their mean makes no difference (Sevastyanov 1957).

    Raises :class:`DimsweepError` for what is no such number.
    """

    nodes: int
    npus: int
    repair: float
    broken: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.nodes <= _MOST:
            raise DimsweepError(f"{self.nodes:,} spare nodes; there may be 0 to {_MOST:,}")
        if self.npus < 1:
            raise DimsweepError(f"a node of {self.npus} NPUs", where="npus", hint="such as 8")
        if not 0 < self.repair < math.inf:
            what = f"{self.repair} s is not positive and finite"
            raise DimsweepError(what, where="repair")
        if not 0 < self.broken <= 1:
            what = f"{self.broken} is no share of all interruptions"
            raise DimsweepError(what, where="broken", hint="more than 0 %, and 100 % at most")

    def broken_at_once(self, between: float) -> float:
        """The nodes that would be in repair in the mean, if the job never waited: it is interrupted
        every ``between`` seconds while it does not wait."""
        return self.broken * self.repair / between

    def waiting(self, between: float) -> float:
        """The share of the time in which the job waits for a repair."""
        *_, last = _lost(self.broken_at_once(between), self.nodes)
        return last

    def price(self, training: int, billed: int) -> float:
        """How many times as much is paid as for the NPUs that are ``billed``, some of which may be
        spares already, where so many are ``training``: a spare node costs what another one does,
        its share of the network with it."""
        return max(1.0, (training + self.nodes * self.npus) / billed)

    def per_node(self, training: int, between: float) -> float:
        """What is trained for each node that is paid for, where so many NPUs are ``training``, as a
        share of what is trained if nothing ever breaks and there are no spares."""
        nodes = self._needed(training)
        return nodes * (1 - self.waiting(between)) / (nodes + self.nodes)

    def best(self, training: int, between: float) -> int:
        """With how many spare nodes :meth:`per_node` is most."""
        nodes = self._needed(training)
        shares = _lost(self.broken_at_once(between), min(_MOST, 1000 + nodes))
        return max(range(len(shares)), key=lambda n: (1 - shares[n]) / (nodes + n))

    def _needed(self, training: int) -> int:
        return -(-training // self.npus)


def _lost(load: float, nodes: int) -> list[float]:
    """The share of the time in which a job waits that has no spare node, one, and so on."""
    found, lost = list[float](), 1.0
    for k in range(1, nodes + 2):
        lost = load * lost / (k + load * lost)
        found.append(lost)
    return found
