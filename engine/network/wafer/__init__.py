"""Wafers: NPUs and I/O controllers on one fabric, a mesh or FRED's tree of switches."""

from dimsweep.engine.network.wafer.fred import FredWafer
from dimsweep.engine.network.wafer.io import NOBODY, Hop, IoTree, heaviest, line_share, store_tree
from dimsweep.engine.network.wafer.mesh import MeshWafer
from dimsweep.engine.network.wafer.plan import WaferPlan
from dimsweep.engine.network.wafer.tree import Tree, plan_trees
from dimsweep.engine.network.wafer.wafer import Wafer
