"""What a cluster's dimensions are made of: building blocks, and topologies composed of them.

The classes that every script needs are in :mod:`engine`; here is the rest.
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
