"""Who communicates with whom, by which algorithms and over what.

The phase kernel has all this in its tables of phases.  A kernel that simulates ranks and messages
one by one asks for it, and need not look at what the program was lowered from.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.collective.algorithms import Chosen
from dimsweep.engine.network.fabric import Auto
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Topology

# An access that goes through the I/O controllers of an interconnect; one a node.
ACCESS = np.dtype(
    [
        ("node", "i4"),
        ("group", "i4"),  # whose members share it, in Communication.groups; or NOT_SHARED
        ("n_bytes", "f8"),
        ("store", "?"),  # or load
    ],
    align=True,
)
NOT_SHARED = -1
NO_ACCESSES = np.zeros(0, dtype=ACCESS)


@dataclass(frozen=True)
class Communication:
    """The communication of a program: ``groups`` by name, ``algorithms`` of each dimension of the
    ``topology``, and the ``network`` that carries messages.

    With ``shares_ports``, messages from point to point do not wait for one another at their port.
    """

    topology: Topology
    network: NetworkModel
    groups: Mapping[str, Group]
    algorithms: tuple[Chosen, ...]
    accesses: NDArray[np.void]  # ACCESS, in the order of their nodes
    shares_ports: bool = False

    @property
    def by_network(self) -> tuple[str, ...]:
        """The names of algorithms that only kernels which know links can run."""
        return tuple(each.others.name for each in self.algorithms if each.others.by_network)

    def circles(self, group: Group, dim: int) -> bool:
        """Return whether the members of a group that differ in ``dim`` only close a circle."""
        fabrics = self.network.fabrics
        fabric = fabrics[dim] if fabrics else Auto()
        return fabric.circles(self.topology.dims[dim], group.sizes[dim], group.strides[dim])
