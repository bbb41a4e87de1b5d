"""A 2-D torus: a mesh whose rows and columns close to rings."""

from dataclasses import dataclass

from dimsweep.engine.topology.grid import Grid


@dataclass(frozen=True)
class Torus2D(Grid):
    """Rows and columns are rings: ``Torus2D(4,4)``; a side of two has one link."""

    name = "Torus2D"
    closes = True
