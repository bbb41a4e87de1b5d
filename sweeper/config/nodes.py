"""The size of a machine in nodes: which shape of its network so many of them make."""

import math
import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from dimsweep.engine import DimsweepError
from dimsweep.engine.cluster import parse_shape
from dimsweep.sweeper.config.parts.part import Part, Whole

_Count = Annotated[Whole, Field(ge=1)]
_NEAR = 2  # sizes that are told on either side of one that is not possible


class Growth(Part):
    """How a network grows: ``node`` NPUs are a node, and there are ``most`` nodes at most.  The
    dimensions of a node stay, and the one after them joins the nodes.  A torus is built of cubes of
    ``cube`` NPUs a side, as nearly a cube as possible, ``within`` so many NPUs a side."""

    node: _Count
    most: _Count | None = None
    cube: _Count | None = None
    within: tuple[_Count, ...] | None = None

    def shape(self, shape: str, nodes: int) -> str:
        """``shape`` with another number of nodes; raises :class:`DimsweepError` for a size that is
        not possible."""
        if nodes < 1:
            raise DimsweepError(f"{nodes} nodes are no machine", hint="1 or more")
        if self.most is not None and nodes > self.most:
            raise DimsweepError(f"there are no {nodes:,} nodes", hint=f"at most {self.most:,}")
        if self.cube is not None and self.within is not None:
            return self._torus(nodes, self.cube, self.within)
        blocks, inside, n = parse_shape(shape), 1, 0
        while n < len(blocks) and inside < self.node:
            inside, n = inside * blocks[n][1], n + 1
        if inside != self.node or n != len(blocks) - 1:
            raise DimsweepError(
                f"{shape} is not one dimension of nodes of {self.node} NPUs",
                hint="leave nodes out where topology.shape says the size",
            )
        return re.sub(r"\(\d+\)$", f"({nodes})", shape.strip())

    def _torus(self, nodes: int, cube: int, within: tuple[int, ...]) -> str:
        per_cube = cube ** len(within)
        cubes, rest = divmod(nodes * self.node, per_cube)
        sides = list(_sides(cubes, [most // cube for most in within])) if not rest else []
        if sides:
            best = min(sides, key=lambda side: (max(side), -min(side)))
            return "_".join(f"Ring({cube * side})" for side in best)
        most = self.most or math.prod(within) // self.node
        known = [
            n * per_cube // self.node
            for n in range(1, most * self.node // per_cube + 1)
            if any(_sides(n, [each // cube for each in within]))
        ]
        near = [n for n in known if n < nodes][-_NEAR:] + [n for n in known if n > nodes][:_NEAR]
        whole = " x ".join([str(cube)] * len(within))
        raise DimsweepError(
            f"{nodes:,} x {self.node} NPUs are no torus of cubes of {whole} within "
            f"{' x '.join(map(str, within))}",
            hint=f"the nearest that are: {', '.join(f'{n:,}' for n in near)}",
        )


def _sides(number: int, most: list[int]) -> Iterator[tuple[int, ...]]:
    """Ascending sides whose product is ``number``, each up to its own in ``most`` (ascending)."""

    def go(left: int, least: int, rest: list[int]) -> Iterator[tuple[int, ...]]:
        if not rest:
            if left == 1:
                yield ()
            return
        for side in range(least, rest[0] + 1):
            if left % side == 0:
                for others in go(left // side, side, rest[1:]):
                    yield side, *others

    return go(number, 1, most)
