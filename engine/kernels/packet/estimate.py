"""How long a run will be, before it starts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.kernels.packet.flows import Flow, FlowColumns
from engine.kernels.packet.inputs import Fabric, check_fabric
from engine.kernels.packet.settings import Settings
from engine.kernels.packet.ways import KnownWays


class Estimate(NamedTuple):
    """What flows come to if nothing is dropped.

    ``packets`` are of data, from end to end; ``hops`` are what links carry, data and ACKs: the time
    of a run is proportional to them.
    """

    packets: int
    hops: int


def estimate_packets(
    fabric: Fabric, flows: Sequence[Flow] | FlowColumns, settings: Settings
) -> Estimate:
    """The packets of ``flows``, without simulating them.

    Raises :class:`DimsweepError` naming a flow that cannot be simulated.
    """
    check_fabric(fabric)
    known = KnownWays(fabric)
    columns, choices = known.take(flows, 0, 0, 0)
    links = known.table["end"] - known.table["data"] - 2  # without the ends of both ways
    before = np.concatenate([[0], np.cumsum(links, dtype=np.int64)])
    on_all_ways = before[choices["first"] + choices["n"]] - before[choices["first"]]
    packets = -(-columns.sizes // settings.payload)
    hops = packets.astype(float) * on_all_ways / choices["n"]  # a sum may be beyond int64
    return Estimate(sum(packets.tolist()), round(hops.sum()))
