"""Chunks, queues and latencies that make no difference to the time, and bandwidth for no byte."""

from collections.abc import Collection

import numpy as np

from dimsweep.engine import Program, QueueOrder, SubgroupBandwidth, units
from dimsweep.engine.rules import crosses_dimensions, lone_chunks, queue_matters, silent_dimensions
from dimsweep.sweeper.config.schema import Config


def idle_knobs(
    config: Config, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """What changes the run, and yet no time, and bandwidth in which nothing is sent."""
    found = _collective(config, program) + _latency(config, program)
    instead = config.network.instead
    found += [
        f"{key} has no effect on times: network.{instead} says what the links are"
        for key in ("topology.bandwidth", "topology.latency")
        if instead and config.by_message and key in turned
    ]
    found += [_silent(d, program, searched=searched) for d in silent_dimensions(program)]
    return [text for text in found if text]


def _collective(config: Config, program: Program) -> list[str]:
    collective, found = config.collective, []
    latency = program.latency.any() or program.structure.shape.endpoint_delay
    model = program.cluster.collectives
    ours = model.library is None and model.timings is None  # those have chunks of their own
    if ours and not crosses_dimensions(program) and lone_chunks(program) > 1 and latency:
        found.append(
            "collective.chunks only adds latency: no collective crosses two dimensions, so "
            "chunks have nothing to overlap with; collective.chunks_on_one_dimension=1"
        )
    is_fifo = collective.queue is QueueOrder.FIFO
    if not is_fifo and not config.by_message and not queue_matters(program):
        found.append(
            f"collective.queue={collective.queue} makes no difference to fifo at the "
            "configuration's own bandwidths"
        )
    return found


def _latency(config: Config, program: Program) -> list[str]:
    """Latencies of zero, unless that is the model that was asked for (profile=libra), or a
    collective library or the links of a graph have latencies of their own."""
    zero = np.flatnonzero(program.latency == 0)
    model = program.cluster.collectives
    by_links = config.by_message and program.communication.network.graph is not None
    if by_links or model.library is not None or model.timings is not None:
        return []
    if not len(zero) or config.collective.subgroup_bandwidth is SubgroupBandwidth.FULL:
        return []
    if len(zero) == len(program.latency):
        return ["topology.latency is 0 in every dimension: small messages and chunks cost nothing"]
    names = ", ".join(program.names.dims[d] for d in zero)
    return [f"topology.latency is 0 in dimension {names}, but not in the others"]


def _silent(d: int, program: Program, *, searched: bool) -> str:
    """A dimension without traffic, where its bandwidth is searched or paid for."""
    name = program.names.dims[d]
    if searched:
        return f"no byte crosses dimension {name}: its bandwidth is searched for nothing"
    if program.prices is None or not program.prices.per_bandwidth[d]:
        return ""
    cost = units.format_money(program.prices.per_bandwidth[d] * program.bandwidth[d])
    return f"no byte crosses dimension {name}: its bandwidth costs {cost} for nothing"
