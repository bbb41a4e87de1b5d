"""Workload of a restructured network: each worker's computations, and the messages."""

import math
from collections.abc import Sequence

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.repurpose.methods import Restructured
from dimsweep.engine.extensions.repurpose.problem import Workers
from dimsweep.engine.topology.coordinates import all_coordinates, offset_between
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Compute, GraphBuilder, Operator, Receive, Send, Workload
from dimsweep.engine.workload.trained import Values


def workers_on(topology: Topology, speed: Sequence[float] = ()) -> Workers:
    """Return one worker for each NPU, with link costs in seconds a byte.

    A message gets the narrowest bandwidth of the dimensions that it crosses.  Raises
    :class:`DimsweepError` for another number of speeds than NPUs.
    """
    n, sizes = topology.n_npus, topology.sizes
    if speed and len(speed) != n:
        raise DimsweepError(f"{len(speed)} speeds for {n} NPUs", where="speed", code="mismatch")
    cost = np.zeros((n, n))
    for dim, places in zip(topology.dims, all_coordinates(sizes).T, strict=True):
        shares = [dim.block.message_path(dim.size, offset).share for offset in range(1, dim.size)]
        seconds = np.array([0.0, *(1 / (dim.bandwidth * share) for share in shares)])
        cost = np.maximum(cost, seconds[(places - places[:, None]) % dim.size])
    return Workers(tuple(speed) or (1.0,) * n, cost)


def inference(
    restructured: Restructured,
    sizes: Sequence[int],
    *,
    batch: int = 1,
    requests: int = 1,
    value: float = 4.0,
) -> Workload:
    """Return the workload of ``requests`` consecutive batches of ``batch`` samples.

    ``sizes`` are those of the topology's dimensions, with an NPU for each worker; ``value`` is the
    bytes of a weight or activation.  A worker computes with its own inputs while others are in
    flight. Inputs start at the workers of their units, and outputs stay where they are computed.

    Raises :class:`DimsweepError` for another number of NPUs than of workers.
    """
    k = len(restructured.workers.speed)
    if math.prod(sizes) != k:
        raise DimsweepError(
            f"{k} workers need {k} NPUs, but the topology has {math.prod(sizes)}",
            where="sizes",
            code="mismatch",
        )
    if min(batch, requests) < 1:
        raise DimsweepError(
            "batch and requests must be 1 or more", where="batch", code="out-of-range"
        )
    layers = [
        _Layer(restructured, number, batch, value)
        for number in range(len(restructured.network.layers))
    ]
    graphs = tuple(_graph(layers, worker, sizes, requests) for worker in range(k))
    return Workload(graphs, {}, np.arange(k), name=restructured.network.name)


class _Layer:
    """The computations and messages of one layer on all workers, for a batch."""

    def __init__(self, of: Restructured, number: int, batch: int, value: float) -> None:
        self.name = of.network.layers[number].name
        self.sent: Values = of.sent(number).astype(np.float64) * (batch * value)
        uses = of.network.uses[number]
        # A weight is read once for the batch; operations are those of a worker of speed 1.
        self.parts = [
            (2.0 * batch * products / of.workers.speed, value * products / uses)
            for products in of.products(number)
        ]

    def compute(self, part: int, worker: int) -> Compute:
        flops, n_bytes = self.parts[part]
        return Compute(float(flops[worker]), float(n_bytes[worker]))


def _graph(
    layers: Sequence[_Layer], worker: int, sizes: Sequence[int], requests: int
) -> tuple[Operator, ...]:
    graph, k = GraphBuilder(), math.prod(sizes)
    others = [(worker + step) % k for step in range(1, k)]  # not all to the same one at first
    last: tuple[int, ...] = ()
    for request in range(requests):
        last = ()  # inputs are there; the NPU has one stream, so requests follow one another
        for number, layer in enumerate(layers):
            tag = request * len(layers) + number
            name = f"{layer.name} of request {request}"
            for other in others:
                if layer.sent[worker, other]:
                    n_bytes, offset = (
                        layer.sent[worker, other],
                        offset_between(worker, other, sizes),
                    )
                    send = Send(float(n_bytes), offset, tag, stream=f"to {other}")
                    graph.add(f"send to {other} for {name}", send, last)
            near = graph.add(f"{name}, own inputs", layer.compute(0, worker), last)
            got = [
                graph.add(
                    f"receive from {other} for {name}",
                    Receive(offset_between(worker, other, sizes), tag),
                )
                for other in others
                if layer.sent[other, worker]
            ]
            last = (near,)
            if got:
                last = (
                    graph.add(f"{name}, others' inputs", layer.compute(1, worker), (near, *got)),
                )
    return graph.build()
