"""What a cluster's dimensions are made of: building blocks, and topologies composed of them.

The classes that every script needs are in :mod:`engine`; here is the rest.
"""

from dimsweep.engine.topology.block import ENTRANCES, LinkUse, Node, Pair, Part, Way
from dimsweep.engine.topology.blocks import BLOCKS, GRIDS, register
from dimsweep.engine.topology.grid import Grid
from dimsweep.engine.topology.topology import bisection, cuts, parse_shape
