"""The network of a cluster as a product of dimensions, each made of one type of building block.

NPU ``i`` of a cluster has mixed-radix coordinates with dimension 0 fastest.  Dimension 0 is the
innermost (chiplet, package) and the last the outermost (pod).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, find_nearest, format_yaml, prefixing_errors
from dimsweep.engine.topology.blocks import BLOCKS, GRIDS, Block, Grid
from dimsweep.engine.units import MAX_PICOSECONDS


@dataclass(frozen=True)
class Dimension:
    """One network dimension of a cluster: its block, its size and its links.

    ``bandwidth`` (bytes/s) is the rate at which one NPU can send in this dimension, in one
    direction, over all its links together: a Ring NPU has two links of half of it, a FullyConnected
    NPU ``size - 1`` links, a Switch NPU one.  ``latency`` is picoseconds per hop (a Switch is two
    hops from NPU to NPU).  ``tier`` names the price list that applies.
    """

    block: Block
    size: int
    bandwidth: float
    latency: int
    tier: str = ""

    def __post_init__(self) -> None:
        if self.size < 1:
            problem = f"{self.size} NPUs; a dimension must have 1 or more"
            raise DimsweepError(problem, where="size", code="out-of-range")
        if isinstance(self.block, Grid) and self.block.size != self.size:
            problem = f"{self.size} NPUs; {self.name} has {self.block.size}"
            raise DimsweepError(problem, where="size", code="mismatch")
        if not (self.bandwidth > 0 and math.isfinite(self.bandwidth)):
            problem = f"{self.bandwidth:g} B/s; it must be more than zero and finite"
            raise DimsweepError(problem, where="bandwidth", code="out-of-range")
        if not 0 <= self.latency <= MAX_PICOSECONDS:
            problem = f"{self.latency} ps; it must be from 0 s to 53 days"
            raise DimsweepError(problem, where="latency", code="out-of-range")

    @property
    def name(self) -> str:
        """Notation in shapes: ``Ring(4)``."""
        return self.block.label(self.size)


@dataclass(frozen=True)
class Topology:
    """The network dimensions of a cluster, innermost first; NPUs form their product."""

    dims: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not self.dims:
            problem = "a topology needs at least one dimension"
            raise DimsweepError(problem, where="dims", hint="such as Ring(8)", code="missing")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of NPUs along each dimension."""
        return tuple(dim.size for dim in self.dims)

    @property
    def n_npus(self) -> int:
        """Number of NPUs."""
        return math.prod(self.sizes)

    @property
    def name(self) -> str:
        """Notation of the shape: ``Ring(4)_FullyConnected(8)_Switch(32)``."""
        return "_".join(dim.name for dim in self.dims)

    @classmethod
    def build(
        cls,
        shape: str,
        *,
        bandwidth: Sequence[float],
        latency: Sequence[int],
        tiers: Sequence[str] = (),
    ) -> "Topology":
        """Build a topology from a shape such as ``Ring(4)_Switch(8)``.

        ``bandwidth`` (bytes/s), ``latency`` (ps) and ``tiers`` hold one entry for each dimension.
        Raises :class:`DimsweepError` if the shape is malformed or a list has a different length.
        """
        blocks = parse_shape(shape)
        for name, values in (("bandwidth", bandwidth), ("latency", latency), ("tiers", tiers)):
            if isinstance(values, str) or not isinstance(values, Sequence):
                n, each = len(blocks), format_yaml(values)
                problem = f"{format_yaml(values)} is not a list"
                hint = f"one for each dimension of {shape}: [{', '.join([each] * n)}]"
                raise DimsweepError(problem, where=name, hint=hint, code="wrong-type")
            if len(values) != len(blocks) and not (name == "tiers" and not values):
                raise DimsweepError(
                    f"{len(values)} values for the {len(blocks)} dimensions of {shape}",
                    where=name,
                    hint="one for each dimension, innermost first",
                    code="mismatch",
                )
        dims = []
        for d, (block, size) in enumerate(blocks):
            with prefixing_errors(f"dimension {d}"):
                tier = tiers[d] if tiers else ""
                dims.append(Dimension(block, size, bandwidth[d], latency[d], tier))
        return cls(tuple(dims))


_BLOCK = re.compile(r"(\w+)\((\d+(?:,\d+)?)\)")
_LIKE_A_BLOCK = re.compile(r"([A-Za-z]\w*?(?:2D)?) *\(? *(\d+(?: *[,x] *\d+)?) *\)?")
_MOST = 10**7  # NPUs of a dimension


def parse_shape(shape: str) -> list[tuple[Block, int]]:
    """Return (block, number of NPUs) per dimension of a shape such as ``Ring(4)_Switch(8)``.

    A grid has two sides: ``Mesh2D(5,4)``.
    """
    blocks = []
    if not isinstance(shape, str):
        hint = f"write {_alternatives()}, joined by _"
        problem = f"{format_yaml(shape)} is not a shape"
        raise DimsweepError(problem, where="shape", hint=hint, code="wrong-type")
    for part in shape.replace(" ", "").split("_"):
        match = _BLOCK.fullmatch(part)
        found = _find(match[1].lower(), match[2]) if match else None
        if found is None:
            raise DimsweepError(
                f"{part!r} is not a network dimension",
                where="shape",
                code="bad-syntax",
                hint=f"{_asked(shape)}write {_alternatives()}, joined by _",
            )
        if not 1 <= found[1] <= _MOST:
            problem = f"{part}; a dimension must have 1 to {_MOST:,} NPUs"
            raise DimsweepError(problem, where="shape", code="out-of-range")
        blocks.append(found)
    return blocks


def _find(name: str, sides: str) -> tuple[Block, int] | None:
    """Return the block called ``name`` (lower case) and its size; None if its sides are wrong."""
    block = {known.lower(): block for known, block in BLOCKS.items()}.get(name)
    grid = {known.lower(): grid for known, grid in GRIDS.items()}.get(name)
    numbers = [int(side) for side in sides.split(",")]
    if block is not None and len(numbers) == 1:
        return block, numbers[0]
    if grid is not None and len(numbers) == 2:
        return grid(*numbers), numbers[0] * numbers[1]
    return None


def _asked(shape: str) -> str:
    """Return a "did you mean" hint for a misspelt shape, or an empty string."""
    if "-" in shape.replace(")-", ")_") or "." in shape:
        return ""
    meant = []
    for name, sides in _LIKE_A_BLOCK.findall(shape):
        close = find_nearest(name, (*BLOCKS, *GRIDS)) or ""
        sides = re.sub(r" *[,x] *", ",", sides)
        if close not in (*BLOCKS, *GRIDS) or _find(close.lower(), sides) is None:
            return ""
        meant.append(f"{close}({sides})")
    return f"did you mean {'_'.join(meant)}? " if meant else ""


def _alternatives() -> str:
    *others, last = (*(f"{grid}(x,y)" for grid in GRIDS), *(f"{name}(n)" for name in BLOCKS))
    return f"{', '.join(others)} or {last}"


def cuts(topology: Topology) -> NDArray[np.float64]:
    """Return the bandwidth between the halves of each dimension's blocks, shape (D,).

    The unit is the bandwidth of one NPU in the dimension.  :meth:`Block.cut` is the bandwidth
    between the halves of one block; all N / n blocks of a dimension are halved together.  Infinite
    for a dimension of one NPU.
    """
    return np.array(
        [
            topology.n_npus / d.size * (d.block.cut(d.size) if d.size > 1 else np.inf)
            for d in topology.dims
        ]
    )


def bisection(topology: Topology, bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bisection bandwidth (bytes/s, shape (...)) for NPU bandwidths of shape (..., D).

    It is the least bandwidth, in one direction, between two halves of the machine, over all cuts
    into halves (Dally and Towles, "Principles and Practices of Interconnection Networks", 2004,
    section 3.2).  In a product of blocks the cuts to examine cross the blocks of one dimension and
    no others, so it is the least of ``cuts(topology) * b``.  A dimension of odd size is cut as
    nearly in half as possible; the least may then be below that of exact halves.
    """
    return np.asarray((cuts(topology) * bandwidth).min(axis=-1))
