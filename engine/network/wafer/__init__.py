"""Wafers: NPUs and I/O controllers on one fabric, a mesh or FRED's tree of switches."""

from engine.network.wafer.fred import FredWafer
from engine.network.wafer.io import NOBODY, Hop, IoTree, heaviest, line_share, store_tree
from engine.network.wafer.mesh import MeshWafer
from engine.network.wafer.plan import WaferPlan
from engine.network.wafer.tree import Tree, plan_trees
from engine.network.wafer.wafer import Wafer

__all__ = [
    "NOBODY",
    "FredWafer",
    "Hop",
    "IoTree",
    "MeshWafer",
    "Tree",
    "Wafer",
    "WaferPlan",
    "heaviest",
    "line_share",
    "plan_trees",
    "store_tree",
]
