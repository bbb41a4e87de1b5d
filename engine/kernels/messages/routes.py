"""Which ways messages take, and which switch reduces for a line."""

import math
from collections.abc import Iterable

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Router, Routing


def router_of(network: Network, model: NetworkModel) -> Router:
    """The ways that messages take, by dimension unless the model or its wafer says otherwise."""
    default = Routing.DIMENSION_ORDER if network.sizes else Routing.SHORTEST
    if model.wafer is not None:
        default = model.wafer.routing
    return Router(network, model.routing or default, model.seed)


def rooms_of(network: Network, model: NetworkModel) -> list[int]:
    """Whole bytes of the buffer at the far end of each link; NONE without limit."""
    sizes = (model.buffer if link.buffer is None else link.buffer for link in network.links)
    return [NONE if size is None else max(1, int(size)) for size in sizes]


def least_room(rooms: Iterable[int]) -> int:
    """The least of some rooms; NONE if there is no limit."""
    limits = [room for room in rooms if room != NONE]
    return min(limits, default=NONE)


def n_parts(n_bytes: float, room: int) -> int:
    """In how many parts a message travels, so that two fit the least ``room`` on its way."""
    return 1 if room == NONE else max(1, math.ceil(2 * n_bytes / room))


def shared_switch(network: Network, model: NetworkModel, npus: frozenset[int]) -> str:
    """The switch that reduces for NPUs without a tree.  Raises :class:`DimsweepError` if there is
    none."""
    if model.wafer is not None and model.wafer.rings is not None:
        raise DimsweepError(
            "the switches of this wafer do not reduce",
            where="collective.algorithms",
            hint="auto, or a wafer whose switches do: network.wafer.reduces=true",
        )
    graph = network.graph
    shared = set.intersection(*(set(graph[npu]) & set(graph.pred[npu]) for npu in npus))
    switches = sorted(node for node in shared if isinstance(node, str))
    if not switches:
        few = ", ".join(map(str, sorted(npus)[:6])) + (", ..." if len(npus) > 6 else "")
        raise DimsweepError(
            f"NPUs {few} share no switch that could reduce for them",
            where="collective.algorithms",
            hint="in_switch needs a dimension that is one switch",
        )
    return switches[0]
