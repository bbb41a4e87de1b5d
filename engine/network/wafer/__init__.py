"""Wafers: NPUs and I/O controllers on one fabric, a mesh or FRED's tree of switches."""

from engine.network.wafer.fred import FredWafer
from engine.network.wafer.mesh import MeshWafer
from engine.network.wafer.plan import WaferPlan
from engine.network.wafer.streams import heaviest, line_share
from engine.network.wafer.tree import Tree, plan_trees
from engine.network.wafer.wafer import Wafer

__all__ = [
    "FredWafer",
    "MeshWafer",
    "Tree",
    "Wafer",
    "WaferPlan",
    "heaviest",
    "line_share",
    "plan_trees",
]
