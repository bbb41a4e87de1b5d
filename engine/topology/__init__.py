"""Building blocks of network dimensions (rings, meshes, switches), and topologies made of them.

The classes that every script needs are in :mod:`engine`; all others are here.
"""

from dimsweep.engine.topology.blocks import (
    BLOCKS,
    ENTRANCES,
    GRIDS,
    Grid,
    LinkUse,
    MessagePath,
    Node,
    Pair,
    Part,
    register,
)
from dimsweep.engine.topology.topology import bisection, cuts, parse_shape
