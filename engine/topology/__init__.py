"""The building blocks of network dimensions, one file each."""

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.registry import Registry
from dimsweep.engine.topology.block import (
    ENTRANCES,
    Block,
    LinkUse,
    Pair,
    Part,
    SubgroupBandwidth,
    Way,
)
from dimsweep.engine.topology.fully_connected import FullyConnected
from dimsweep.engine.topology.grid import Grid
from dimsweep.engine.topology.mesh2d import Mesh2D
from dimsweep.engine.topology.ring import Ring
from dimsweep.engine.topology.switch import Switch
from dimsweep.engine.topology.torus2d import Torus2D

BLOCKS: Registry[Block] = Registry("block")  # by the name in shapes
# Those of two sides, ``Mesh2D(5,4)``; a grid of every size is a block of its own.
GRIDS: dict[str, type[Grid]] = {grid.name: grid for grid in (Mesh2D, Torus2D)}


def register(*blocks: Block) -> None:
    """Let shapes such as ``Ring(4)`` name the blocks.

    Raises :class:`DimsweepError` for a name that another block has, whatever its case.
    """
    for block in blocks:
        taken = {name.lower(): other for name, other in BLOCKS.items()}.get(block.name.lower())
        if taken is not None and taken != block:
            raise DimsweepError(
                f"two blocks are called {block.name}: {type(taken).__qualname__} and "
                f"{type(block).__qualname__}",
                where="blocks",
            )
        BLOCKS[block.name] = block


register(Ring(), FullyConnected(), Switch())
