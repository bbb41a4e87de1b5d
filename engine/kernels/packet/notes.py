"""What a run noted while it went on: queues over time, and who paused whom because of what."""

from typing import NamedTuple

from engine.kernels.packet.inputs import Fabric
from engine.kernels.packet.state import N_PAUSINGS, N_SAMPLES, PAUSE, Run
from engine.lower.program import Ints, Longs


class Queue(NamedTuple):
    """The bytes behind a port from each of ``times`` (ticks) on."""

    times: Longs
    n_bytes: Ints


class Pausing(NamedTuple):
    """A switch told ``port`` to pause, since a packet came by it that waits at the port ``queue``.

    Ports are pairs of nodes, from and to.  ``root`` is where the tree of pauses begins: ``queue``
    itself, or, if that was told to pause, the root of that.
    """

    time: int
    port: tuple[int, int]
    queue: tuple[int, int]
    root: tuple[int, int]


def read_queues(fabric: Fabric, tables: Run) -> dict[tuple[int, int], Queue]:
    """The queue of each port that was watched."""
    samples = tables.samples[: tables.counts[N_SAMPLES]]
    found = {}
    for i, port in enumerate(fabric.ports):
        if tables.ports["watched"][i]:
            own = samples[samples["port"] == i]
            found[port.node, port.to] = Queue(own["time"].copy(), own["queue"].copy())
    return found


def read_pausings(fabric: Fabric, tables: Run) -> tuple[Pausing, ...]:
    """All orders to pause, as they were given."""
    roots: dict[int, int] = {}  # of the ports that pause
    found = []
    for time, port, kind, queue in tables.pausings[: tables.counts[N_PAUSINGS]].tolist():
        if kind != PAUSE:
            roots.pop(port, None)
            continue
        roots[port] = roots.get(queue, queue)
        ends = [(fabric.ports[i].node, fabric.ports[i].to) for i in (port, queue, roots[port])]
        found.append(Pausing(time, *ends))
    return tuple(found)
