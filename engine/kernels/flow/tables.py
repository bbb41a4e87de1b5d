"""The tables of a run of the flow kernel."""

from typing import NamedTuple

import numpy as np

from engine.kernels.packet import Fabric, FlowColumns
from engine.kernels.packet.following import EDGE
from engine.kernels.packet.ways import with_room
from engine.lower.program import Floats, Ints, Longs, Table

TICKS = 10**12  # a second

FLOW = np.dtype(
    [
        ("left", "f8"),  # bytes
        ("rate", "f8"),  # bytes a tick
        ("due", "i8"),  # the tick at which it starts, when it is planned; or ends, when it arrives
        ("after", "i8"),  # ticks from the last flow that it waits for, or the tick it starts at
        ("start", "i8"),
        ("end", "i8"),
        ("route", "i4"),  # its links in Flows.routes: from here ...
        ("route_end", "i4"),  # ... to here
        ("waits", "i4"),  # flows that have not ended
        ("followers", "i4"),  # the first edge to those that wait for it, and
        ("last_follower", "i4"),  # the last one
        ("done", "i4"),  # whether those need wait no longer
        ("arrives", "i4"),  # whether all is sent, and what is planned is its end
    ],
    align=True,
)


class Flows(NamedTuple):
    """All flows and links."""

    flows: Table  # of FLOW
    routes: Ints  # links, one way after another
    capacity: Floats  # of each link, bytes a tick
    delays: Longs  # of each link, ticks
    edges: Table  # of EDGE: flows that wait for a flow
    moving: Longs  # (flows,): those that move now, at the front
    planned: Longs  # (flows,): a heap by what is due, of those that start or arrive
    arrived: Longs  # (flows,): those that have arrived since the last look, at the front
    room: Floats  # (links,): of a link while shares are found
    sharing: Ints  # (links,): flows on it whose rate is not found yet
    used: Ints  # (links,): the links in use, at the front
    counts: Longs


# Entries of ``counts``.
N_FLOWS, N_EDGES, N_MOVING, N_PLANNED, N_ENDED, N_ARRIVED, NOW, UNTIL, N_SHARINGS = range(9)
STOP = 9  # whether an arrival stops the run
N_COUNTS = 10


def new_tables(fabric: Fabric) -> Flows:
    """Tables without flows; the inputs are checked."""
    n_links = len(fabric.ports)
    return Flows(
        np.zeros(0, FLOW),
        np.zeros(0, np.int32),
        np.array([port.rate / (8 * TICKS) for port in fabric.ports]),
        np.array([port.delay for port in fabric.ports], np.int64),
        np.zeros(0, EDGE),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(n_links),
        np.zeros(n_links, np.int32),
        np.zeros(n_links, np.int32),
        np.zeros(N_COUNTS, np.int64),
    )


def with_flows(f: Flows, flows: FlowColumns, ways: Table, routes: Ints) -> Flows:
    """Room for more flows, with what they read filled in.

    ``ways`` (of WAY) lead over the links ``routes``.
    """
    first, n_edges = int(f.counts[N_FLOWS]), int(f.counts[N_EDGES])
    n = first + len(flows.sizes)
    f.counts[N_FLOWS] = n
    table = with_room(f.flows, n)
    new = table[first:n]
    new["left"], new["after"] = flows.sizes, flows.starts
    new["route"], new["route_end"] = ways["data"], ways["ack"] - 1
    for name in ("start", "end", "followers"):
        new[name] = -1
    return f._replace(
        flows=table,
        routes=routes,
        edges=with_room(f.edges, n_edges + len(flows.after)),
        moving=with_room(f.moving, n),
        planned=with_room(f.planned, n),
        arrived=with_room(f.arrived, n),
    )
