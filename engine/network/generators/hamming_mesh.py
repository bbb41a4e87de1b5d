"""HammingMesh: boards with meshes of NPUs, joined along their rows and columns."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from dimsweep.engine.network.generators.generator import LAYER, Generator, Wires, check_count, fold
from dimsweep.engine.topology.block import Node


@dataclass(frozen=True, kw_only=True)
class HammingMesh(Generator):
    """``columns`` by ``rows`` boards, each a mesh of ``a`` by ``b`` NPUs without switches (Hoefler
    et al., HammingMesh, SC 2022).

    The ends of each row of NPUs on a board lead to a fat tree of switches of ``radix`` ports that
    all boards of a row share, and so do those of each column.
    """

    kind: ClassVar[str] = "hamming_mesh"

    a: int
    b: int
    columns: int
    rows: int
    radix: int = 64

    def lay(self, wires: Wires) -> None:
        for name in ("a", "b", "columns", "rows"):
            check_count(name, getattr(self, name))
        wires.npus(self.a * self.b * self.columns * self.rows)
        wide, high = self.a * self.columns, self.b * self.rows

        def at(x: int, y: int) -> int:
            """Boards follow each other, and so do the NPUs of a board."""
            (bx, i), (by, j) = divmod(x, self.a), divmod(y, self.b)
            return (by * self.columns + bx) * self.a * self.b + j * self.a + i

        rows = [[at(x, y) for x in range(wide)] for y in range(high)]
        columns = [[at(x, y) for y in range(high)] for x in range(wide)]
        for name, lines, size in (("row", rows, self.a), ("column", columns, self.b)):
            for number, line in enumerate(lines):
                ends: list[Node] = []
                for first in range(0, len(line), size):
                    board = line[first : first + size]
                    for one, other in pairwise(board):
                        wires.cable(one, other)
                    ends += [board[0], board[-1]]
                if len(line) > size:
                    fold(wires, ends, self.radix, (1.0,), f"{name} {number}", LAYER)
