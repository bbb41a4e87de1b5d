"""The flow kernel as a carrier: messages on a link share it in the max-min fair way."""

from collections.abc import Collection, Sequence

import numpy as np

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.kernels.carriers.carrier import Carrier, Kind
from dimsweep.engine.kernels.carriers.fabric import PARTS, nodes_of, plain_fabric
from dimsweep.engine.kernels.carriers.traffic import Traffic
from dimsweep.engine.kernels.flow import FlowNetwork
from dimsweep.engine.kernels.packet import Flow
from dimsweep.engine.kernels.packet.flows import Way
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.network.graph import Network


class FlowCarrier(Carrier):
    """Messages at their fair rates, through when their last byte is on its way."""

    kernel: FlowNetwork

    def __init__(
        self, network: Network, _: NetworkModel, __: Collection[int] = ()
    ) -> None:  # without buffers or queues there is nothing to set or to watch
        self._latency = [link.latency for link in network.links]
        self._late: list[int] = []  # how long after each message is through it is there
        self._fabric = plain_fabric(network)
        self._ways: list[Way] = []  # of each kind of message
        super().__init__(FlowNetwork(self._fabric))

    def latency_after(self, route: Sequence[int]) -> int:
        return sum(self._latency[link] for link in route)

    def send(self, kind: Kind, n_bytes: float, now: int) -> int:
        self._late.append(self.latency_after(kind.ways.out[0]))
        return super().send(kind, n_bytes, now)

    def start(self, kinds: Longs, n_bytes: Floats, now: int) -> None:
        sent = zip(n_bytes.tolist(), kinds.tolist(), strict=True)
        parts = ((max(round(PARTS * size), 1), *self._ways[kind]) for size, kind in sent)
        self.kernel.add([Flow(*each) for each in parts], now)

    def traffic(self, operators: Sequence[str]) -> Traffic:
        run = self.kernel.account()
        return Traffic(tuple(operators), run.starts, run.ends + np.array(self._late, np.int64))

    def _learn(self, kinds: Sequence[Kind]) -> None:
        self._ways += [nodes_of(self._fabric, kind.ways)[0] for kind in kinds]
