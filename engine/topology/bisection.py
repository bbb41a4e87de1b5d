"""Bisection bandwidth of a network composed of dimensions.

It is the least bandwidth, in one direction, between two halves of the machine, over all cuts into
halves (Dally and Towles, "Principles and Practices of Interconnection Networks", 2004, section
3.2).
In a product of blocks the cuts to look at cross one dimension: all N / n of its blocks are halved,
and those of no other dimension.  So the bisection bandwidth is the least of ``cuts(topology) * b``,
one linear function of each dimension's bandwidth.  (A dimension of odd size is cut as nearly in
half as it can be; the least may then be less than that of exact halves.)
"""

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.topology.topology import Topology


def cuts(topology: Topology) -> NDArray[np.float64]:
    """(D,) what the halves of dimension d's blocks can send each other, per bandwidth of an NPU.

    Each block says what its own halves can send (:meth:`Block.cut`).  Infinite for a dimension of
    one NPU, which cannot be cut.
    """
    return np.array(
        [
            topology.n_npus / d.size * (d.block.cut(d.size) if d.size > 1 else np.inf)
            for d in topology.dims
        ]
    )


def bisection(topology: Topology, bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bytes/s, of shape (...), for NPU bandwidths of shape (..., D) in bytes/s."""
    return np.asarray((cuts(topology) * bandwidth).min(axis=-1))
