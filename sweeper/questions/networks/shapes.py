"""The networks of a search space, grouped by shape; used by searches and portfolios.

A shape is a list of tiers with their blocks and sizes. Its networks differ in bandwidths only.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, isqrt, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import (
    Cluster,
    DimsweepError,
    InfeasibleError,
    NetworkModel,
    Prices,
    Switch,
    list_algorithms,
    own_capacity,
    remote_capacity,
    units,
)
from dimsweep.engine.network import degrade_network
from dimsweep.engine.network.generators import Generator
from dimsweep.sweeper.config.network import Network
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Networks, NpuRange, Tier
from dimsweep.sweeper.part import expand_per_dimension, naming_key, to_plain
from dimsweep.sweeper.simulation.outages import outlasted
from dimsweep.sweeper.simulation.program import build_cluster
from dimsweep.sweeper.space.plans import Refusals

Floats = NDArray[np.float64]
_MOST_SHAPES, _MOST_NETWORKS = 100_000, 10_000_000
_COST_OBJECTIVES = frozenset({"cost", "perf_per_cost", "cost_per_token"})  # objectives
_POWER_OBJECTIVES = frozenset({"energy", "perf_per_watt"})
_AUTO = "auto"  # an algorithm: the default of its block
_NPU_MEMORY, _NPU_PRICE = "npu.memory", "cost.npu"


@dataclass(frozen=True)
class Shape:
    """W networks with the same D dimensions, which differ in their bandwidths only."""

    #: the shape, as the configuration has it
    text: str
    cluster: Cluster
    #: bytes/s (W, D)
    bandwidth: Floats
    #: bandwidths as the configuration has them
    texts: tuple[tuple[str, ...], ...]
    #: USD (W,); NaN where unknown
    cost: Floats
    #: watts (W,); NaN where unknown
    power: Floats
    #: other choices of the space
    keys: Mapping[str, object] = field(default_factory=dict)
    #: the generator of the only network of this shape, whose links have their own bandwidths
    generator: Generator | None = None
    #: bytes of each NPU, expansions included, if the space varies them
    memory: float = inf

    @property
    def remote(self) -> float:
        """Bytes of remote memory of each NPU."""
        found = remote_capacity(self.cluster.memory, self.sizes)
        return inf if found is None else found

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.cluster.topology.sizes

    def select(self, kept: NDArray[np.bool_]) -> "Shape":
        """Return the shape with the networks of the mask ``kept`` (W,)."""
        texts = tuple(itertools.compress(self.texts, kept.tolist()))
        own = {name: getattr(self, name)[kept] for name in ("bandwidth", "cost", "power")}
        return replace(self, texts=texts, **own)

    def scale_bandwidths(self, scale: tuple[float, ...]) -> Floats:
        """Return the bandwidths (W, D), multiplied by the ``scale`` of each tier."""
        return self.bandwidth * scale if scale and self.generator is None else self.bandwidth

    def scale_latencies(self, scale: tuple[float, ...]) -> NDArray[np.int64]:
        """Return the latencies (D,) in picoseconds, multiplied by the ``scale`` of each tier."""
        latency = np.array([dim.latency for dim in self.cluster.topology.dims])
        moved = latency * scale if scale and self.generator is None else latency
        return np.rint(moved).astype(np.int64)

    def with_prices(self, config: Config, before: Config) -> "Shape":
        """Return the shape at the prices of ``config``, instead of the prices of ``before``.

        If an NPU has a separate price in this shape, that price changes in proportion.
        """
        if _NPU_PRICE in self.keys:
            own = units.parse(self.keys[_NPU_PRICE], units.MONEY, zero=True)
            more = config.cost.npu / before.cost.npu if before.cost.npu else 1.0
            config = config.with_values({_NPU_PRICE: f"{own * more!r} USD"})
        bought = config.purchase(self.cluster.topology, self.cluster.network)
        prices = bought.prices(), bought.watts()
        cost, power = (_amounts(each, self.bandwidth) for each in prices)
        return replace(self, cost=cost, power=power)

    def values(self, number: int) -> dict[str, object]:
        """Return the configuration keys of network ``number`` of this shape, with their values."""
        if self.generator is not None:
            return dict(self.keys)
        own = {"topology.shape": self.text, "topology.bandwidth": list(self.texts[number])}
        return {**own, **self.keys}


def build_shapes(config: Config, space: Networks, refused: Refusals) -> list[Shape]:
    """Return the shapes of a space with their networks; count infeasible networks in ``refused``.

    Raises :class:`InfeasibleError` if no network is feasible, and :class:`DimsweepError` for a
    limit on a cost or a power that is unknown.
    """
    made = [_build_shape(config, space, dims, refused) for dims in _list_tiers(space)]
    made += _generate_shapes(config, space, refused)
    several = [
        each for shape in made if shape is not None for each in _vary_memory(shape, config, space)
    ]
    several = _drop_unpriced(several, config, refused)
    found = [_apply_limits(shape, config, space, refused) for shape in several]
    found = [shape for shape in found if len(shape.bandwidth)]
    if config.reliability.outages:
        found = _drop_stopped_by_outages(found, config, refused)
    if not found:
        hint = _describe_lowest_limits(several, space) or _suggest(space)
        raise refused.error(f"no network of {space.npus.text} NPUs", "space.network", hint)
    return found


def _drop_unpriced(shapes: Sequence[Shape], config: Config, refused: Refusals) -> list[Shape]:
    """Drop networks of unknown cost or power, if the study needs it and some network has it."""
    space, names = config.space.network, {each.name for each in config.objective}
    assert space is not None
    fed = space.racks is not None and bool(space.racks.power)
    needs = {
        "cost": bool(names & _COST_OBJECTIVES) or space.cost is not None,
        "power": bool(names & _POWER_OBJECTIVES) or space.power is not None or fed,
    }
    found = [*shapes]
    for name in (name for name, is_needed in needs.items() if is_needed):
        known = [~np.isnan(getattr(shape, name)) for shape in found]
        if not any(own.any() for own in known):
            continue
        if n := sum(int((~own).sum()) for own in known):
            refused[f"networks have a part whose {name} is not known"] += n
        found = [shape.select(own) for shape, own in zip(found, known, strict=True)]
    return found


def _drop_stopped_by_outages(
    shapes: Sequence[Shape], config: Config, refused: Refusals
) -> list[Shape]:
    """Drop networks on which training stops while a device or a link is down."""
    goes_on = outlasted(config, (shape.cluster for shape in shapes))
    for shape in itertools.compress(shapes, (not each for each in goes_on)):
        refused["networks cannot do without one of reliability.outages"] += len(shape.bandwidth)
    return [*itertools.compress(shapes, goes_on)]


def _describe_lowest_limits(shapes: Sequence[Shape], space: Networks) -> str:
    """Return a hint with the lowest cost and power of any network; "" without limits."""
    fed = space.racks is not None and space.racks.power
    found = []
    if shapes and space.cost is not None:
        cost = float(np.concatenate([shape.cost for shape in shapes]).min())
        found.append(f"the lowest cost is {units.format_money(cost)}")
    if shapes and (space.power is not None or fed):
        power = float(np.concatenate([shape.power for shape in shapes]).min())
        found.append(f"the lowest power is {units.format_quantity(power, units.POWER)}")
    return ", and ".join(found)


class _Dim(NamedTuple):
    """A tier of a shape: its block, its size in NPUs, and its algorithm (None: as configured)."""

    block: str
    size: int
    algorithm: str | None


def _list_tiers(space: Networks) -> list[tuple[_Dim, ...]]:
    """Return all combinations of tiers; raise :class:`DimsweepError` for too many."""
    listed = list(itertools.islice(_iterate_tiers(space.tiers, space.npus), _MOST_SHAPES + 1))
    each = [len(tier.bandwidth) for tier in space.tiers]
    networks = sum(
        prod(n for n, dim in zip(each, dims, strict=True) if dim.size > 1) for dims in listed
    )
    for n, most, things in (
        (len(listed), _MOST_SHAPES, "shapes"),
        (networks, _MOST_NETWORKS, "networks, one for each bandwidth"),
    ):
        if n > most:
            raise DimsweepError(
                f"the tiers have more than {most:,} {things}",
                where="space.network.tiers",
                hint="give tiers fewer sizes, blocks or bandwidths, or name one number of NPUs",
                code="too-many",
            )
    return listed


def _tier_sizes(tier: Tier, npus: NpuRange, inner: int) -> Iterable[int]:
    """Return the sizes that a tier of ``npus`` may have around groups of ``inner`` NPUs."""
    if tier.sizes:
        return _deduplicate(tier.sizes)
    most = npus.at_most // inner
    if npus.at_least < npus.at_most:
        return range(1, most + 1)
    low = [n for n in range(1, isqrt(most) + 1) if most % n == 0]
    return sorted({*low, *(most // n for n in low)})


def _iterate_tiers(
    tiers: Sequence[Tier], npus: NpuRange, inner: int = 1
) -> Iterator[tuple[_Dim, ...]]:
    """Yield all combinations of ``tiers`` around groups of ``inner`` NPUs.

    A tier of size 1 sends nothing: only its first block is used, without an algorithm.
    """
    if not tiers:
        if inner in npus:
            yield ()
        return
    tier = tiers[0]
    for size in _tier_sizes(tier, npus, inner):
        if not npus.has_multiple_of(inner * size):
            continue
        named: list[str | None] = [*_deduplicate(tier.algorithms)] or [None]
        dims = [_Dim(*each) for each in itertools.product(_deduplicate(tier.blocks), [size], named)]
        for dim in dims if size > 1 else [dims[0]._replace(algorithm=None)]:
            for outer in _iterate_tiers(tiers[1:], npus, inner * size):
                yield dim, *outer


def _deduplicate(values: Sequence[Any]) -> list[Any]:
    """Return the values of a list without repetitions, in order."""
    return [*dict.fromkeys(values)]


def _build_shape(
    config: Config, space: Networks, dims: tuple[_Dim, ...], refused: Refusals
) -> Shape | None:
    """Return the networks with the tiers ``dims``, or None if they are infeasible."""
    text = "_".join(f"{dim.block}({dim.size})" for dim in dims)
    # A dimension of one NPU sends no message: its first bandwidth stands for all.
    each = [
        _deduplicate(tier.bandwidth) if dim.size > 1 else tier.bandwidth[:1]
        for tier, dim in zip(space.tiers, dims, strict=True)
    ]
    choices = list(itertools.product(*each))
    for tier, dim in zip(space.tiers, dims, strict=True):
        if tier.radix is not None and dim.block == Switch().name and dim.size > tier.radix:
            refused["networks need a switch with more ports than its radix"] += len(choices)
            return None
    bandwidth = np.array(choices, dtype=float)
    most = bandwidth.max(axis=0)
    at_most = {"topology.bandwidth": [f"{each!r} B/s" for each in most.tolist()]}
    try:
        keys = _algorithm_keys(config, dims)
        whole = {**shared_keys(space), "topology.shape": text, **at_most, **keys}
        cluster = build_cluster(config.with_values(whole))
    except DimsweepError as error:
        refused.add("networks are left out", error, error.where, len(choices))
        return None
    if not _can_run(cluster, dims):
        refused["networks have a block on which its algorithm does not run"] += len(choices)
        return None
    try:
        remote_capacity(cluster.memory, cluster.topology.sizes)
    except InfeasibleError:
        refused["networks are not tiled by nodes that share a memory"] += len(choices)
        return None
    texts = tuple(tuple(each.text for each in choice) for choice in choices)
    cost, power = (_amounts(each, bandwidth) for each in (cluster.prices, cluster.power))
    return Shape(text, cluster, bandwidth, texts, cost, power, keys)


def _algorithm_keys(config: Config, dims: Sequence[_Dim]) -> dict[str, object]:
    """Return the key that sets the algorithm of each dimension; {} if all are as configured."""
    own = expand_per_dimension(config.collective.algorithms, len(dims), "collective.algorithms")
    named = [
        _AUTO if dim.size == 1 else dim.algorithm or usual
        for dim, usual in zip(dims, own, strict=True)
    ]
    return {} if named == [*own] else {"collective.algorithms": named}


def _can_run(cluster: Cluster, dims: Sequence[_Dim]) -> bool:
    """Return whether the chosen collective algorithms can run on the blocks of ``dims``."""
    return all(
        dim.algorithm is None or dim.algorithm in list_algorithms(at.block)
        for dim, at in zip(dims, cluster.topology.dims, strict=True)
    )


def _vary_memory(shape: Shape, config: Config, space: Networks) -> Iterator[Shape]:
    """Yield the shape once for each memory size that the space gives to NPUs."""
    if not space.memory:
        yield shape
    for memory in _deduplicate(space.memory):
        keys: dict[str, object] = {**shape.keys, _NPU_MEMORY: memory.size.text}
        if memory.price is not None:
            keys[_NPU_PRICE] = memory.price.text
        npu = replace(shape.cluster.npu, memory=float(memory.size))
        own = replace(shape, keys=keys, memory=own_capacity(npu, shape.cluster.memory) or inf)
        yield own.with_prices(config, config) if memory.price is not None else own


def _suggest(space: Networks) -> str:
    """Return a hint on how to change the space so that it has a network."""
    if space.tiers:
        return "give tiers sizes whose product is the number of NPUs"
    return "give other generators, or other values of their keys"


def _generate_shapes(config: Config, space: Networks, refused: Refusals) -> list[Shape | None]:
    """Return the shapes of all distinct networks that the space's generators make.

    If a generator has several values of a parameter, infeasible combinations are left out.
    """
    found, known = list[Shape | None](), set[Generator]()
    for number, family in enumerate(space.generators):
        for generator in family.members:
            if generator in known:
                continue
            known.add(generator)
            try:
                with naming_key(f"space.network.generators[{number}]"):
                    shape = _generate_shape(config, space, generator)
            except DimsweepError as error:
                if family.given is None:
                    raise
                refused[f"generated networks cannot be ({error.where.rpartition('.')[2]})"] += 1
                continue
            if _is_connected(shape.cluster.network):
                found.append(shape)
            else:
                refused["generated networks fall to pieces (network.degrade)"] += 1
    return found


def _is_connected(network: NetworkModel) -> bool:
    """Return whether all NPUs can reach each other on the degraded graph."""
    assert network.graph is not None
    try:
        with naming_key("network.degrade"):
            degrade_network(network.graph, network.degrade, network.placement)
    except InfeasibleError:
        return False
    return True


def _generate_shape(config: Config, space: Networks, generator: Generator) -> Shape:
    """Return the shape of a generator's network, which is simulated by flows."""
    n = space.npus.at_least
    if n != space.npus.at_most:
        n = generator.build().n_npus
    text = f"Switch({n})"  # every NPU may communicate with every other one
    keys: dict[str, object] = {
        **shared_keys(space),
        "topology.shape": text,
        "topology.bandwidth": "1 GB/s",  # the links have their own
        "topology.latency": "0 s",
        "topology.tiers": [],
        "network.generator": to_plain(Network(generator=generator))["generator"],
        "fidelity": "flow",
    }
    cluster = build_cluster(config.with_values(keys))
    assert cluster.network.graph is not None
    if (n := cluster.network.graph.n_npus) not in space.npus:
        problem = f"the network has {n:,} NPUs; the space asks for {space.npus.text}"
        raise DimsweepError(problem, where="npus", code="mismatch")
    bandwidth = np.full((1, 1), 1e9)
    cost, power = (_amounts(each, bandwidth) for each in (cluster.prices, cluster.power))
    return Shape(text, cluster, bandwidth, (("1 GB/s",),), cost, power, keys, generator)


def describe_generator(generator: Generator) -> str:
    """Return the name of a generator in a row: its kind, with non-default parameters."""
    found = list[str]()
    for each in dataclasses.fields(generator):
        value = getattr(generator, each.name)
        if value == each.default and each.name != "bandwidth":
            continue
        if each.name.endswith("latency"):
            value = units.format_time(value)
        elif isinstance(value, float) and each.name in ("bandwidth", "nvlink"):
            value = units.format_quantity(value, units.BANDWIDTH)
        found.append(f"{each.name} {value}")
    return f"{generator.kind}({', '.join(found)})"


def _apply_limits(shape: Shape, config: Config, space: Networks, refused: Refusals) -> Shape:
    """Return the shape with only the networks within the limits of cost, power and racks."""
    kept = np.ones(len(shape.bandwidth), dtype=bool)
    racks, pue = space.racks, config.cost.power.pue
    limits: list[tuple[str, float | None, Floats, str]] = [
        ("cost", space.cost, shape.cost, "networks cost more than there is"),
        ("power", space.power, shape.power, "networks draw more than there is"),
    ]
    if racks is not None and racks.power:
        fed, reason = racks.at_most * racks.power * pue, "networks draw more than the racks feed"
        limits.append(("racks", fed, shape.power, reason))
    if racks is not None and racks.npus:
        npus = np.full(len(kept), float(prod(shape.sizes)))
        reason = "networks have more NPUs than the racks hold"
        limits.append(("racks", racks.at_most * racks.npus, npus, reason))
    for name, limit, own, reason in limits:
        if limit is None:
            continue
        if np.isnan(own).any():
            what = "power" if name == "racks" else name
            raise DimsweepError(
                f"the {what} of these networks is not known",
                where=f"space.network.{name}",
                hint=f"give cost.{'tiers' if name == 'cost' else 'power'}, or no limit",
                code="missing",
            )
        over = kept & (own > limit)
        if over.any():
            refused[reason] += int(over.sum())
        kept &= ~over
    return shape.select(kept)


def _amounts(prices: Prices | None, bandwidth: Floats) -> Floats:
    """Return an amount of each network (W,), such as its cost; NaN if no part has its bandwidth."""
    found = np.full(len(bandwidth), np.nan)
    if prices is None:
        return found
    if prices.is_linear:
        return prices.cost(bandwidth)
    for w, own in enumerate(bandwidth):
        with suppress(InfeasibleError):
            found[w] = prices.cost(own)
    return found


def shared_keys(space: Networks) -> dict[str, object]:
    """Return the configuration keys that have one value in all networks of a space."""
    priced = any(tier.price for tier in space.tiers)
    return {
        "topology.file": None,
        "topology.latency": [tier.latency.text for tier in space.tiers],
        "topology.tiers": [tier.price for tier in space.tiers] if priced else [],
        "topology.links": [],
        "topology.machines": [],
        "topology.grows": None,
    }
