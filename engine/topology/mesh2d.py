"""A 2-D mesh: every NPU is joined to those beside it in its row and in its column."""

from dataclasses import dataclass

from dimsweep.engine.topology.grid import Grid


@dataclass(frozen=True)
class Mesh2D(Grid):
    """Rows and columns are lines: ``Mesh2D(5,4)`` is a wafer of 5 by 4."""

    name = "Mesh2D"
    closes = False
