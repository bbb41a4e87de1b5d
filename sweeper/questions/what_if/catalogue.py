"""The catalogue of what-ifs: the changes that are simulated if a study names none."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from dimsweep.engine import DimensionOrder, units
from dimsweep.engine.network import Auto, PartKind
from dimsweep.engine.topology import parse_shape
from dimsweep.engine.workload.models import Transformer
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.space.space import Parameter, Range, Space
from dimsweep.sweeper.study.restore import BANDWIDTHS

Changes = Mapping[str, Any]
_ETHERNET = (50, 100, 200, 400, 800, 1600, 3200)  # Gb/s that links are called by
_COARSE = 0.1  # of a range without a step, to its neighbouring value


@dataclass(frozen=True)
class DesignToChange:
    """A design to change.

    ``config`` is the configuration with all of its values. ``space`` is the space of splits in
    which it was found.
    """

    config: Config
    space: Space

    def changes(self) -> Iterator[tuple[str, Changes]]:
        """Yield name and change for each of :data:`WHAT_IFS` that applies to the design."""
        for what_if in WHAT_IFS:
            yield from what_if(self)

    @property
    def sizes(self) -> list[int]:
        """Sizes of the dimensions; [] if a file gives the topology."""
        shape = self.config.topology.shape
        return [] if shape is None else [size for _, size in parse_shape(shape)]

    @property
    def has_bandwidths(self) -> bool:
        """True if the configuration gives the bandwidths of its dimensions."""
        return self.config.topology.shape is not None and self.config.topology.bandwidth is not None

    @property
    def is_measured(self) -> bool:
        """True if collectives take measured times, so that topology.bandwidth has no effect."""
        collective = self.config.collective
        return collective.measured is not None and collective.measured_bandwidth is None


def _searched_keys(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    """Yield changes of each searched key to the next smaller and the next larger value."""
    for key, axis in design.space.parameters.items():
        value = axis.nearest(design.config.value(key))
        for other in _neighbours(axis, value) if key != "fidelity" else ():
            yield f"{key.rsplit('.', 1)[-1]} {value} -> {other}", {key: other}


def _bandwidths(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    if design.is_measured or not design.has_bandwidths:
        return
    own = _as_tuple(design.config.topology.bandwidth)
    for d in range(len(design.sizes)):
        before = float(own[d % len(own)])
        # A split that was searched is called by nothing; so cells can be compared.
        name = f"dim {d}: {_format_links(before, 2 * before)}"
        named = name if design.space.split is None else f"dim {d}: bandwidth x2"
        yield named, {f"{BANDWIDTHS}[{d}]": "x2"}


def _rails(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    """Yield the change that takes one network adapter of a node down.

    The bandwidth of every NPU falls by the share of one adapter.
    """
    if design.is_measured or not design.has_bandwidths:
        return
    collective, fabric = design.config.collective, design.config.network.fabric
    fabrics = fabric if isinstance(fabric, tuple) else ()
    outer = [d for d, each in enumerate(fabrics) if each != Auto()]
    first = collective.node_dimensions if collective.library is not None else min(outer, default=0)
    n = prod(design.sizes[:first])
    if n > 1 and first < len(design.sizes):
        dims = range(first, len(design.sizes))
        named = " and ".join(map(str, dims))
        name = f"one of {n} rails down (dim {named} at {n - 1}/{n})"
        yield name, {f"{BANDWIDTHS}[{d}]": f"x{n - 1}/{n}" for d in dims}


def _latency(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    if any(_as_tuple(design.config.topology.latency)):
        yield "latency x2", {"topology.latency": "x2"}


def _collectives(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    collective = design.config.collective
    if collective.library is not None or collective.measured is not None:
        return
    yield f"chunks {collective.chunks} -> {2 * collective.chunks}", {"collective.chunks": "x2"}
    if len(design.sizes) > 1:
        baseline = collective.order is DimensionOrder.BASELINE
        other = DimensionOrder.THEMIS if baseline else DimensionOrder.BASELINE
        yield f"order {collective.order} -> {other}", {"collective.order": str(other)}


def _workloads(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    workload = design.config.workload
    if not isinstance(workload, Model):
        if isinstance(getattr(workload, "layers", None), int):
            yield "model x2 (layers)", {"workload.layers": "x2"}
        return
    plan, model = workload.plan, workload.model
    if isinstance(model, Transformer):
        if (other := _next_interleave(workload)) is not None:
            changes = {"workload.plan.interleave": other}
            yield f"interleave {plan.interleave} -> {other}", changes
        if plan.micro_batch is not None or plan.task != "decode":
            once = plan.micro_batch or 1
            twice = {"workload.plan.micro_batch": 2 * once}
            yield f"micro_batch {once} -> {2 * once}", twice
        yield "model x2 (layers)", {"workload.model.layers": "x2"}
    name = "batch" if plan.batch is not None else "micro_batches"
    value = getattr(plan, name)
    if value is not None:
        yield f"{name} {value} -> {2 * value}", {f"workload.plan.{name}": "x2"}


def _npus(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    npu, workload = design.config.npu, design.config.workload
    if design.config.other_npus:  # the name of a change would not say which kind it changes
        return
    if getattr(workload, "flops", None) is not None:
        yield "NPU peak x1.25", {"workload.flops": "x1.25"}
    elif 1.25 * npu.efficiency <= 1:
        after = 1.25 * npu.efficiency
        yield f"NPU efficiency {npu.efficiency:g} -> {after:g}", {"npu.efficiency": "x1.25"}
    elif npu.kernels is None and npu.flops is not None:
        yield "NPU peak x1.25", {"npu.flops": "x1.25"}
    elif npu.efficiency < 1:
        yield f"NPU efficiency {npu.efficiency:g} -> 1", {"npu.efficiency": 1.0}


def _prices(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    cost = design.config.cost
    others = {
        f"other_npus[{i}].cost.price": "x2"
        for i, other in enumerate(design.config.other_npus)
        if other.cost.price
    }
    for kind in dict.fromkeys(part.kind for part in cost.parts.values() if part.price):
        names = [name for name, part in cost.parts.items() if part.kind is kind and part.price]
        changes = {f"cost.parts.{name}.price.value": "x2" for name in names}
        changes |= others if kind is PartKind.NPU else {}
        yield f"price of {kind.plural} x2", changes
    used = dict.fromkeys(() if cost.parts else design.config.topology.tiers)
    if not used or not set(used) <= set(cost.tiers):
        return
    for tier in used:
        yield f"prices of {tier} x2", {f"cost.tiers.{tier}": "x2"}
    if cost.npu:
        yield "price of NPUs x2", {"cost.npu": "x2", **others}


def _failures(design: DesignToChange) -> Iterator[tuple[str, Changes]]:
    own = design.config.reliability
    if own.npu_time is None:
        return
    yield "interruptions x2", {"reliability.npu_time": "x1/2"}
    yield "restart x1/2", {"reliability.restart": "x1/2"}
    if own.checkpoint.bandwidth is not None:
        yield "storage bandwidth x2", {"reliability.checkpoint.bandwidth": "x2"}
    if own.spares is not None:
        yield f"spares {own.spares} -> {own.spares + 1}", {"reliability.spares": own.spares + 1}
        yield "repair x1/2", {"reliability.repair.time": "x1/2"}


#: The what-ifs of any design, in this order, if a study names no changes; a new what-if is a
#: function and a line here.
WHAT_IFS: list[Callable[[DesignToChange], Iterator[tuple[str, Changes]]]] = [
    _searched_keys,
    _bandwidths,
    _rails,
    _latency,
    _collectives,
    _workloads,
    _npus,
    _prices,
    _failures,
]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _format_links(before: float, after: float) -> str:
    """Format bandwidths, by the names of links if possible: 400G -> 800G, or 450 -> 900 GB/s."""
    gigabits = [bandwidth * 8 / 1e9 for bandwidth in (before, after)]
    if set(gigabits) <= set(_ETHERNET):
        return " -> ".join(f"{each:g}G" for each in gigabits)
    texts = [units.format_quantity(bandwidth, units.BANDWIDTH) for bandwidth in (before, after)]
    (number, unit), (_, other) = (text.split(" ") for text in texts)
    return f"{number if unit == other else texts[0]} -> {texts[1]}"


def _next_interleave(workload: Model) -> int | None:
    """Return the next number of virtual stages that divides the layers, or else the one before."""
    stages, layers = workload.parallel.get("pipeline"), workload.model.layers
    if not isinstance(stages, int) or stages < 2 or layers % stages:
        return None
    each, now = layers // stages, workload.plan.interleave
    divisors = [n for n in range(1, each + 1) if each % n == 0]
    above = [n for n in divisors if n > now]
    below = [n for n in divisors if n < now]
    return above[0] if above else below[-1] if below else None


def _neighbours(axis: Parameter, value: Any) -> list[Any]:
    """Return the values next to ``value`` in an axis' list, or a step away in its range."""
    values = axis.all_values()
    if values is not None:
        at = [i for i, each in enumerate(values) if each == value]
        return [values[i] for i in (at[0] - 1, at[0] + 1) if 0 <= i < len(values)] if at else []
    assert isinstance(axis, Range)
    if axis.log:
        number = axis.low * (axis.high / axis.low) ** axis.to_unit(value)
        found = [axis.value(number / 2), axis.value(number * 2)]
    else:
        unit = axis.to_unit(value)
        found = [axis.from_unit(max(0.0, min(1.0, unit + step))) for step in (-_COARSE, _COARSE)]
    return [each for each in found if each != value]
