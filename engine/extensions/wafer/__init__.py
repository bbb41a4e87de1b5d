"""Wafers: NPUs and I/O controllers on one fabric, a mesh or FRED's tree of switches."""

from dimsweep.engine.extensions.wafer.fred import FredWafer, plan_trees
from dimsweep.engine.extensions.wafer.fred_switch import (
    Flow,
    FredSwitch,
    Remedy,
    Route,
    Schedule,
    UnroutableError,
    in_rounds,
    schedule,
)
from dimsweep.engine.extensions.wafer.mesh import MeshWafer
