"""A HyperX of two dimensions as one building block (Ahn et al., SC 2009).

    dimsweep simulate plugins=examples/plugins/hyperx.py topology.shape='Ring(4)_HyperX(16)' \\
        topology.latency='500 ns' topology.tiers=[]
"""

from collections import Counter
from collections.abc import Iterator
from math import isqrt

from dimsweep.engine import Block, DimsweepError
from dimsweep.engine.collective.algorithms import AllToAllOnly
from dimsweep.engine.collective.algorithms import register as register_algorithms
from dimsweep.engine.collective.rounds import Shift, Shifts
from dimsweep.engine.topology import LinkUse, MessagePath, Pair, register


class HyperX(Block):
    """NPUs in rows and columns, nearly as many of each; an NPU is joined to all of its row and to
    all of its column, by links of equal shares of its bandwidth.

    For 2^k NPUs, or for a prime number, which are one row.  Halving and doubling exchange bytes
    with neighbours only, over one of the links at a time.
    """

    name = "HyperX"
    algorithms = ("halving_doubling",)
    all_to_all = "hyperx_exchange"
    hops = 1
    sends_concurrently = False
    parts = ("nic",)

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Partners differ in one bit, so in their row or in their column."""
        return LinkUse(1 / self.links(n), 1, 1)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """Over as many links as most NPUs have to theirs."""
        columns = sides(n)[1]
        hops = Counter(_hops(i, (i + offset) % n, columns) for i in range(n))
        return MessagePath(1 / self.links(n), hops.most_common(1)[0][0])

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        rows, columns = sides(n)
        return rows + columns - 2

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        columns = sides(len(npus))[1]
        for i, npu in enumerate(npus):
            yield from ((npu, other) for j, other in enumerate(npus) if _hops(i, j, columns) == 1)

    def cut(self, n: int) -> float:
        """Between the halves of each column, or of each row where there is one only."""
        rows, columns = sides(n)
        side, others = (rows, columns) if rows > 1 else (columns, rows)
        return others * (side // 2) * (side - side // 2) / self.links(n)


class HyperXExchange(AllToAllOnly):
    """An all-to-all of log2 p rounds of half of the bytes, each to a neighbour (Johnsson and Ho,
    1989, on hypercubes), for p a power of two."""

    name = "hyperx_exchange"

    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        if p & (p - 1):
            raise DimsweepError(f"{p} members are no power of two", where="collective.all_to_all")
        return tuple((Shift(1 << k, 0.5, pairs=True),) for k in range(p.bit_length() - 1))


def sides(n: int) -> tuple[int, int]:
    """Rows and columns of ``n`` NPUs, of which there are no fewer than rows."""
    rows = next(side for side in range(isqrt(n), 0, -1) if n % side == 0)
    if rows > 1 and n & (n - 1):
        hint = "2^k NPUs, or a prime number"
        raise DimsweepError(f"HyperX({n}) is none", where="topology.shape", hint=hint)
    return rows, n // rows


def _hops(i: int, j: int, columns: int) -> int:
    return (i // columns != j // columns) + (i % columns != j % columns)


register_algorithms(HyperXExchange())
register(HyperX())
