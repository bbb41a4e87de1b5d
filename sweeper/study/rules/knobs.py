"""Keys of the configuration that cannot make a difference."""

from collections.abc import Collection

import numpy as np

from engine import DimensionOrder, Fidelity, Program, QueueOrder, SubgroupBandwidth, units
from engine.rules import (
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from sweeper.config.schema import Config
from sweeper.study.rules.links import ignored_by_others, ignored_dimensions, ignored_links

_RATES = ("flops", "memory_bandwidth", "efficiency", "memory_efficiency", "matmul_efficiency")
_TIMES = ("launch", "host", "measured", "attention_time", "attention_backward", "relative_time")
_NPU = {f"npu.{name}" for name in (*_RATES, *_TIMES, "systolic", "kernels")} | {"npu"}


def idle_keys(
    config: Config, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """Keys without an effect on this program, and bandwidth in which nothing is sent."""
    found = _collective(config, program) + _latency(config, program)
    found += [_silent(d, program, searched=searched) for d in silent_dimensions(program)]
    if is_measured(program):
        found += [
            f"{key} has no effect: every computation has a measured duration"
            for key in sorted(_NPU & set(turned))
        ]
    used = {config.fidelity, *(fidelity for fidelity, _ in config.recheck.rungs)}
    if "fidelity" not in (*config.grid, *config.space.parameters):
        by_phase = used == {Fidelity.PHASE}
        found += ignored_links(config, program) if by_phase else ignored_by_others(config, used)
    if used != {Fidelity.PHASE}:
        found += ignored_dimensions(config, turned)
    return [text for text in found if text]


def _collective(config: Config, program: Program) -> list[str]:
    collective, found = config.collective, []
    latency = program.latency.any() or program.structure.shape.endpoint_delay
    if not crosses_dimensions(program):
        if collective.order is DimensionOrder.THEMIS:
            found.append(
                "collective.order=themis has no effect: no collective crosses two dimensions"
            )
        if lone_chunks(program) > 1 and latency:
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
    collective library has latencies of its own."""
    zero = np.flatnonzero(program.latency == 0)
    model = program.cluster.collectives
    if model.library is not None or model.timings is not None:
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
    if program.prices is None:
        return ""
    cost = units.format_money(program.prices.per_bandwidth[d] * program.bandwidth[d])
    return f"no byte crosses dimension {name}: its bandwidth costs {cost} for nothing"
