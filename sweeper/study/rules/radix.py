"""Switches of a fabric that nobody sells."""

from dimsweep.engine import Program, units
from dimsweep.engine.network import Clos
from dimsweep.sweeper.config.catalogue import catalogue
from dimsweep.sweeper.config.parts.part import per_dimension
from dimsweep.sweeper.config.schema import Config

_NEAR = 1.01


def radices(config: Config, program: Program) -> list[str]:
    """Leaf switches with more ports than any switch of the catalogue has at their bandwidth."""
    topology, dims = program.cluster.topology, program.names.dims
    found = []
    fabrics = per_dimension(config.network.fabric, len(dims), "fabric")
    for name, dim, fabric in zip(dims, topology.dims, fabrics, strict=True):
        if not isinstance(fabric, Clos):
            continue
        needed = fabric.leaf + fabric.up(fabric.leaf)
        least = dim.bandwidth / _NEAR
        fast = [each for each in catalogue().switches if (each.bandwidth or 0) >= least]
        most = max(fast, key=lambda each: each.ports, default=None)
        if most is None or most.ports < needed:
            sold = f"the largest is {most.title} with {most.ports}" if most else "none is as fast"
            found.append(
                f"network.fabric: leaf switches of dimension {name} have {needed} ports of "
                f"{units.format_bandwidth(dim.bandwidth)}, and no switch does: {sold}"
            )
    return found
