"""Attributes of our own, beside those that ASTRA-sim reads: what Chakra has no room for.

A trace counts whole microseconds, bytes and operations, and knows groups by number.  Where that is
not all, a node of ours says the rest, so that what is read back takes as long to the picosecond.
Other tools skip attributes that they do not know.
"""

DURATION = "dimsweep.duration_ps"  # of measured work, int
FLOPS = "dimsweep.flops"  # double, where num_ops is not the number
BYTES = "dimsweep.bytes"  # double, where tensor_size or comm_size is not the number
STREAM = "dimsweep.stream"  # string, where it is not the group's own, or "p2p"
SHARED = "dimsweep.shared"  # int, 1 where the members of a group load the same
GROUP = "dimsweep.group"  # string: the group's name in the workload
GRAPH = "dimsweep.graph"  # int, of the trace: its number in the workload, which breaks ties
SIZES = "dimsweep.sizes"  # ints, of the trace: those of the dimensions that involved_dim means
