"""The building blocks of network dimensions, one file each."""

from engine.cluster.blocks.block import Block, LinkUse, Pair, Part, SubgroupBandwidth, Way
from engine.cluster.blocks.fully_connected import FullyConnected
from engine.cluster.blocks.ring import Ring
from engine.cluster.blocks.switch import Switch
from engine.errors import DimsweepError

__all__ = [
    "BLOCKS",
    "Block",
    "FullyConnected",
    "LinkUse",
    "Pair",
    "Part",
    "Ring",
    "SubgroupBandwidth",
    "Switch",
    "Way",
    "register",
]

BLOCKS: dict[str, Block] = {}  # by the name in shapes


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
