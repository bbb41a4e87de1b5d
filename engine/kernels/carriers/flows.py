"""The flow kernel as a carrier: messages on a link share it in the max-min fair way."""

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.kernels.carriers.carrier import Carrier, Kind, Traffic
from dimsweep.engine.kernels.carriers.fabric import PARTS, nodes_of, plain_fabric
from dimsweep.engine.kernels.flow import FlowNetwork
from dimsweep.engine.kernels.packet import Flow
from dimsweep.engine.kernels.packet.flows import Way
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.graph import Network


class FlowCarrier(Carrier):
    """Messages at their fair rates, through when their last byte is on its way: latencies pass
    then, of several ways in the mean."""

    kernel: FlowNetwork

    def __init__(
        self, network: Network, _: NetworkModel, __: Collection[int] = ()
    ) -> None:  # without buffers or queues there is nothing to set or to watch
        self._latency = [link.latency for link in network.links]
        self._fabric = plain_fabric(network)
        # The ways of each kind of message, and its latency.
        self._ways: list[tuple[tuple[Way, ...], int]] = []
        self._late: list[int] = []  # how long after each message is through it is there
        super().__init__(FlowNetwork(self._fabric))

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        ways, late = zip(*(self._ways[kind] for kind in kinds.tolist()), strict=True)
        sizes = (max(round(PARTS * size), 1) for size in n_bytes.tolist())
        flows = [
            Flow(size, way, back, sprayed=tuple(more))
            for size, ((way, back), *more) in zip(sizes, ways, strict=True)
        ]
        self.kernel.add(flows, now)
        self._late += late

    def traffic(self, operators: Sequence[str]) -> Traffic:
        run = self.kernel.account()
        return Traffic(tuple(operators), run.starts, run.ends + np.array(self._late, np.int64))

    def _learn(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            ways = kind.ways.out
            latency = sum(self._latency[link] for link in chain(*ways)) / len(ways)
            self._ways.append((nodes_of(self._fabric, kind.ways), round(latency)))
