"""Wafers: NPUs and I/O controllers on one fabric, a mesh or FRED's tree of switches."""

from dimsweep.engine.extensions.wafer.fred import FredWafer
from dimsweep.engine.extensions.wafer.io import (
    NOBODY,
    Hop,
    IoTree,
    heaviest,
    line_share,
    store_tree,
)
from dimsweep.engine.extensions.wafer.mesh import MeshWafer
from dimsweep.engine.extensions.wafer.plan import WaferPlan
from dimsweep.engine.extensions.wafer.tree import Tree, plan_trees
from dimsweep.engine.extensions.wafer.wafer import Wafer
