"""The flow kernel as a carrier: messages on a link share it in the max-min fair way."""

from collections.abc import Collection, Sequence

import numpy as np

from engine.cluster.network import NetworkModel
from engine.kernels.carriers.batches import BatchingCarrier, Route
from engine.kernels.carriers.carrier import Ways
from engine.kernels.carriers.fabric import PARTS, nodes_of, plain_fabric
from engine.kernels.carriers.traffic import Traffic
from engine.kernels.flow import FlowNetwork
from engine.network.graph import Network


class FlowCarrier(BatchingCarrier):
    """Messages at their fair rates, through when their last byte is on its way."""

    kernel: FlowNetwork

    def __init__(
        self, network: Network, _: NetworkModel, __: Collection[int] = ()
    ) -> None:  # without buffers or queues there is nothing to set or to watch
        self._latency = [link.latency for link in network.links]
        self._late: list[int] = []  # how long after each message is through it is there
        self._fabric = plain_fabric(network)
        super().__init__(FlowNetwork(self._fabric))

    def latency_after(self, route: Sequence[int]) -> int:
        return sum(self._latency[link] for link in route)

    def send(self, ways: Ways, n_bytes: float, now: int) -> int:
        self._late.append(self.latency_after(ways.out[0]))
        return super().send(ways, n_bytes, now)

    def traffic(self, operators: Sequence[str]) -> Traffic:
        run = self.kernel.account()
        return Traffic(tuple(operators), run.starts, run.ends + np.array(self._late, np.int64))

    def _route(self, ways: Ways) -> Route:
        return Route(nodes_of(self._fabric, ways))

    def _size(self, n_bytes: float) -> int:
        return round(PARTS * n_bytes)
