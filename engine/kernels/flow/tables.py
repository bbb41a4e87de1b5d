"""The tables of a run of the flow kernel."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from engine.kernels.packet import Fabric, Flow
from engine.lower.program import Floats, Ints, Longs, Table

# States of a flow.
WAITING, MOVING, ARRIVING, ENDED = range(4)

FLOW = np.dtype(
    [
        ("left", "f8"),  # bytes
        ("rate", "f8"),  # bytes a tick
        ("due", "i8"),  # the tick at which it starts, when it is planned; or ends, when it arrives
        ("after", "i8"),  # ticks from the last flow that it waits for, or from the beginning
        ("delay", "i8"),  # ticks that its last byte travels
        ("start", "i8"),
        ("end", "i8"),
        ("route", "i4"),  # its links in Flows.routes: from here ...
        ("route_end", "i4"),  # ... to here
        ("waits", "i4"),  # flows that have not ended
        ("state", "i4"),
    ],
    align=True,
)


class Flows(NamedTuple):
    """All flows and links."""

    flows: Table  # of FLOW
    routes: Ints  # links, one flow's after another's
    capacity: Floats  # of each link, bytes a tick
    followers: Longs  # flows that wait for a flow ...
    follow_from: Longs  # (flows + 1,): ... from here on
    moving: Ints  # (flows,): those that move now, at the front
    planned: Ints  # (flows,): a heap by what is due, of those that start or arrive
    room: Floats  # (links,): of a link while shares are found
    sharing: Ints  # (links,): flows on it whose rate is not found yet
    used: Ints  # (links,): the links in use, at the front
    counts: Longs


# Entries of ``counts``.
N_MOVING, N_PLANNED, N_ENDED, NOW, N_SHARINGS = range(5)


def new_tables(fabric: Fabric, flows: Sequence[Flow], ticks: int) -> Flows:
    """Tables before anything has happened; the inputs are checked."""
    numbers = {(port.node, port.to): i for i, port in enumerate(fabric.ports)}
    table = np.zeros(len(flows), FLOW)
    routes: list[int] = []
    for record, flow in zip(table, flows, strict=True):
        links = [numbers[pair] for pair in pairwise(flow.way)]
        record["left"], record["after"], record["waits"] = flow.size, flow.start, len(flow.after)
        record["route"], record["route_end"] = len(routes), len(routes) + len(links)
        record["delay"] = sum(fabric.ports[link].delay for link in links)
        routes += links
    table["start"] = table["end"] = -1
    followers, follow_from = _followers(flows)
    capacity = np.array([port.rate / (8 * ticks) for port in fabric.ports])
    n, n_links = len(flows), len(fabric.ports)
    return Flows(
        table,
        np.array(routes, np.int32),
        capacity,
        followers,
        follow_from,
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n_links),
        np.zeros(n_links, np.int32),
        np.zeros(n_links, np.int32),
        np.zeros(5, np.int64),
    )


def _followers(flows: Sequence[Flow]) -> tuple[Longs, Longs]:
    lists: list[list[int]] = [[] for _ in flows]
    for i, flow in enumerate(flows):
        for other in flow.after:
            lists[other].append(i)
    starts = np.cumsum([0, *map(len, lists)])
    return np.array([i for some in lists for i in some], np.int64), starts
