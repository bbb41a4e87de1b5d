"""Server-centric networks: each NPU has several ports and forwards messages between switches."""

from dataclasses import dataclass
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import LAYER, NEAR, Generator
from dimsweep.engine.network.wires import Wires, check_count, check_divides
from dimsweep.engine.topology.blocks import Node


@dataclass(frozen=True, kw_only=True)
class BCube(Generator):
    """BCube(n, k): n^k NPUs that forward messages between switches (Guo et al., SIGCOMM 2009).

    NPUs whose numbers in base ``n`` differ only in digit i share a switch of level i.  No two
    switches are joined.
    """

    kind: ClassVar[str] = "bcube"

    n: int
    k: int = 2

    def lay(self, wires: Wires) -> None:
        check_count("n", self.n)
        check_count("k", self.k)
        npus = wires.npus(self.n**self.k if self.k < 21 else 0)
        for level in range(self.k):
            below = self.n**level
            own = wires.switches(f"level {level} switch", len(npus) // self.n, self.n)
            for npu in npus:
                switch = own[npu // (below * self.n) * below + npu % below]
                wires.cable(npu, switch, *(("copper", NEAR) if level == 0 else ("fibre", LAYER)))


@dataclass(frozen=True, kw_only=True)
class ZCube(Generator):
    """ZCube(n, k) (Yan et al., From ATOP to ZCube, SIGCOMM 2025).

    ZCube(n, 1) is a switch and ``n`` NPUs.  ZCube(n, k + 1) is n copies of ZCube(n, k) and n^k
    switches of level k: NPU i of each copy has a port to switch i, and switch i of level k - 1 of
    each copy is joined to switches i n to i n + n - 1.  Its diameter is ``k`` + 1 cables.

    In the ``partial`` form NPUs have no port to the top level.  The free ports of a top switch take
    the cables of another switch of the level below, so half as many top switches are needed.
    ``copies`` limits the number of copies at the top level (by default ``n``), and with them the
    number of top switches.
    """

    kind: ClassVar[str] = "zcube"

    n: int
    k: int = 2
    partial: bool = False
    copies: int | None = None

    def lay(self, wires: Wires) -> None:
        n, k = self.n, self.k
        check_count("n", n)
        if not 1 <= k <= 20:
            problem = f"{k} levels; it must be 1 to 20"
            hint = "2 or 3 are usual"
            raise DimsweepError(problem, where="k", hint=hint, code="out-of-range")
        copies = n if self.copies is None else self.copies
        if self.partial and k < 2:
            problem, hint = "a network of one level has no partial form", "such as k: 2"
            raise DimsweepError(problem, where="partial", hint=hint, code="conflict")
        if not 1 <= copies <= n:
            problem = f"{copies} copies; it must be 1 to {n}"
            raise DimsweepError(problem, where="copies", code="out-of-range")
        npus = wires.npus(n ** (k - 1) * copies)
        levels = [self._add_level(wires, level, len(npus), copies) for level in range(k)]
        for level in range(k - 1 if self.partial else k):
            below = n**level
            for npu in npus:
                switch = levels[level][npu // (below * n) * below + npu % below]
                wires.cable(npu, switch, *(("copper", NEAR) if level == 0 else ("fibre", LAYER)))
        merge = self._merged_switches(copies)
        for level in range(1, k):
            each = n ** (level - 1)  # switches of the level below in one copy
            for below, switch in enumerate(levels[level - 1]):
                copy, i = divmod(below, each)
                for t in range(n):
                    above = copy // n * n**level + i * n + t
                    if level == k - 1 and merge > 1:
                        above = i // merge * n + t
                    wires.cable(switch, levels[level][above], "fibre", LAYER)

    def _merged_switches(self, copies: int) -> int:
        """Return how many switches of each copy one top switch is joined to."""
        if not self.partial:
            return 1
        merge, each = 2 * self.n // copies, self.n ** (self.k - 2)
        check_divides("copies", copies, 2 * self.n, "ports of a top switch")
        check_divides("n", min(merge, each), each, "switches of the level below")
        return min(merge, each)

    def _add_level(self, wires: Wires, level: int, npus: int, copies: int) -> list[Node]:
        """Add the switches of one level to ``wires``, with ports for NPUs and adjacent levels."""
        n, top = self.n, level == self.k - 1
        name = f"level {level} switch"
        if top and level:
            merge = self._merged_switches(copies)
            to_npus = 0 if self.partial else copies
            return wires.switches(name, n**level // merge, to_npus + copies * merge)
        return wires.switches(name, npus // n, n * (1 + (not top) + (level > 0)))
