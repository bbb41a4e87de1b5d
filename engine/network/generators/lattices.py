"""Lattices of NPUs: boards or cubes joined along their rows and columns."""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import (
    FAR,
    LAYER,
    NEAR,
    Generator,
    build_folded_clos,
)
from dimsweep.engine.network.graph import Kind
from dimsweep.engine.network.wires import Wires, check_count, check_divides
from dimsweep.engine.topology.blocks import Node


@dataclass(frozen=True, kw_only=True)
class HammingMesh(Generator):
    """HammingMesh: a grid of ``columns`` by ``rows`` boards (Hoefler et al., SC 2022).

    Each board is a mesh of ``a`` by ``b`` NPUs without switches.  A row of NPUs continues across
    the boards: on every board, the two NPUs at its ends are joined to one fat tree per row.  Each
    column of NPUs has a fat tree that joins the two end NPUs of every board.  Switches have
    ``radix`` ports.
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

        def npu_at(x: int, y: int) -> int:  # numbered board by board
            (bx, i), (by, j) = divmod(x, self.a), divmod(y, self.b)
            return (by * self.columns + bx) * self.a * self.b + j * self.a + i

        rows = [[npu_at(x, y) for x in range(wide)] for y in range(high)]
        columns = [[npu_at(x, y) for y in range(high)] for x in range(wide)]
        for name, lines, size in (("row", rows, self.a), ("column", columns, self.b)):
            for number, line in enumerate(lines):
                ends: list[Node] = []
                for first in range(0, len(line), size):
                    board = line[first : first + size]
                    for one, other in pairwise(board):
                        wires.cable(one, other)
                    ends += [board[0], board[-1]]
                if len(line) > size:
                    build_folded_clos(wires, ends, self.radix, (1.0,), f"{name} {number}", LAYER)


@dataclass(frozen=True, kw_only=True)
class OcsTorus(Generator):
    """A torus of cubes, joined by optical circuit switches (Jouppi et al., TPU v4, ISCA 2023).

    ``shape`` counts the NPUs along each side, ``cube`` those of a cube.  Cables within a cube are
    copper.  The faces of cubes are joined to optical circuit switches, one for each of the
    3 * cube^2 places on a face.  These switches pass light, not messages: they are devices without
    links, and a circuit is a fibre from face to face.
    """

    kind: ClassVar[str] = "ocs_torus"

    shape: tuple[int, ...]
    cube: int = 4

    def lay(self, wires: Wires) -> None:
        if len(self.shape) != 3:
            problem = f"{len(self.shape)} dimensions; there must be three"
            hint = "such as [8, 8, 16]"
            raise DimsweepError(problem, where="shape", hint=hint, code="mismatch")
        for size in self.shape:
            check_divides("shape", self.cube, size, "NPUs along a side")
        a, b, c = self.shape
        wires.npus(a * b * c)
        cubes = a * b * c // self.cube**3
        for axis, i, j in product("xyz", range(self.cube), range(self.cube)):
            wires.graph.add_node(f"OCS {axis} {i}.{j}", kind=Kind.OCS, **wires.device(2 * cubes))
        for d, size in enumerate(self.shape):
            for place in product(*(range(s) for s in self.shape)):
                on = list(place)
                on[d] = (on[d] + 1) % size
                one, other = (x + a * (y + b * z) for x, y, z in (place, on))
                if one == other or (size == 2 and place[d] == 1):
                    continue
                outside = place[d] % self.cube == self.cube - 1
                wires.cable(one, other, *(("fibre", FAR) if outside else ("copper", NEAR)))
