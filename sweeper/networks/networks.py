"""All networks of a space, shape by shape."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import Cluster, DimsweepError, InfeasibleError, Prices, units
from dimsweep.engine.network.generators import Generator
from dimsweep.sweeper.build.program import build_cluster
from dimsweep.sweeper.config.designs import Networks, Tier
from dimsweep.sweeper.config.network import Network
from dimsweep.sweeper.config.parts.part import key, written
from dimsweep.sweeper.config.schema import Config

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Networks of one shape, which differ in their bandwidths: ``bandwidth`` (W, D) in bytes/s, by
    ``texts`` as the configuration has them; ``cost`` (W,) in USD and ``power`` (W,) in watts, NaN
    where these are not known.  What a generator makes is the one network of a shape of its own,
    whose links have their bandwidths: ``keys`` say it, and which of the space it is ``made`` by."""

    text: str
    cluster: Cluster
    bandwidth: Floats
    texts: tuple[tuple[str, ...], ...]
    cost: Floats
    power: Floats
    keys: Mapping[str, object] | None = None
    made: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.cluster.topology.sizes

    def scaled(self, scale: tuple[float, ...]) -> Floats:
        """The bandwidths (W, D), those of each tier times its ``scale``."""
        return self.bandwidth * scale if scale and self.keys is None else self.bandwidth

    def repriced(self, config: Config) -> "Shape":
        """The same at the prices of another configuration."""
        bought = config.bought(self.cluster.topology, self.cluster.network)
        prices = bought.prices(), bought.watts()
        cost, power = (_amounts(each, self.bandwidth) for each in prices)
        return replace(self, cost=cost, power=power)

    def values(self, number: int) -> dict[str, object]:
        """The keys of a network of this shape."""
        if self.keys is not None:
            return dict(self.keys)
        return {"topology.shape": self.text, "topology.bandwidth": list(self.texts[number])}


def shapes_of(config: Config, space: Networks, refused: Counter[str]) -> list[Shape]:
    """The shapes of a space, each with its networks; counts those that are ``refused``, by reason.

    Raises :class:`InfeasibleError` if there is none, and :class:`DimsweepError` for a limit on what
    is not known of them.
    """
    found = list[Shape]()
    tiers = [list(_blocks(tier, space.npus)) for tier in space.tiers]
    for blocks in itertools.product(*tiers) if tiers else ():
        if math.prod(size for _, size in blocks) != space.npus:
            continue
        found.append(_shape(config, space, blocks, refused))
    found += [_generated(config, space, i, refused) for i in range(len(space.generators))]
    found = [shape for shape in found if len(shape.bandwidth)]
    if not found:
        why = ", ".join(f"{n:,} {reason}" for reason, n in refused.items())
        raise InfeasibleError(
            f"no network of {space.npus:,} NPUs" + (f": {why}" if why else ""),
            where="space.network",
            hint="sizes of the tiers whose product is the number of NPUs",
        )
    return found


def _blocks(tier: Tier, npus: int) -> Iterator[tuple[str, int]]:
    """What a tier may be; of one NPU all blocks are alike."""
    sizes = tier.sizes or tuple(n for n in range(1, npus + 1) if npus % n == 0)
    for size in sizes:
        for block in tier.blocks if size > 1 else tier.blocks[:1]:
            yield block, size


def _shape(
    config: Config, space: Networks, blocks: tuple[tuple[str, int], ...], refused: Counter[str]
) -> Shape:
    text = "_".join(f"{block}({size})" for block, size in blocks)
    # No message goes where there is one NPU: all bandwidths are alike, and the first stands for it.
    each = [
        tier.bandwidth if size > 1 else tier.bandwidth[:1]
        for tier, (_, size) in zip(space.tiers, blocks, strict=True)
    ]
    choices = list(itertools.product(*each))
    bandwidth = np.array(choices, dtype=float)
    most = bandwidth.max(axis=0)
    at_most = {"topology.bandwidth": [f"{each!r} B/s" for each in most.tolist()]}
    cluster = build_cluster(config.changed({**fixed(space), "topology.shape": text, **at_most}))
    texts = tuple(tuple(each.text for each in choice) for choice in choices)
    return _within(_priced(text, cluster, bandwidth, texts), space, refused)


def _generated(config: Config, space: Networks, number: int, refused: Counter[str]) -> Shape:
    """What a generator makes, simulated by flows."""
    generator = space.generators[number]
    text = f"Switch({space.npus})"  # who communicates with whom: all with all
    keys: dict[str, object] = {
        **fixed(space),
        "topology.shape": text,
        "topology.bandwidth": "1 GB/s",  # the links have their own
        "topology.latency": "0 s",
        "topology.tiers": [],
        "network.generator": written(Network(generator=generator))["generator"],
        "fidelity": "flow",
    }
    with key(f"space.network.generators[{number}]"):
        cluster = build_cluster(config.changed(keys))
        assert cluster.network.graph is not None
        if (n := cluster.network.graph.n_npus) != space.npus:
            raise DimsweepError(f"it has {n:,} NPUs, and {space.npus:,} are asked for")
    shape = _priced(text, cluster, np.full((1, 1), 1e9), (("1 GB/s",),))
    return _within(replace(shape, keys=keys, made=number), space, refused)


def told(generator: Generator) -> str:
    """What a generator is called in a row: its kind, with what is not as usual."""
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


def _priced(
    text: str, cluster: Cluster, bandwidth: Floats, texts: tuple[tuple[str, ...], ...]
) -> Shape:
    cost, power = (_amounts(each, bandwidth) for each in (cluster.prices, cluster.power))
    return Shape(text, cluster, bandwidth, texts, cost, power)


def _within(shape: Shape, space: Networks, refused: Counter[str]) -> Shape:
    """Those networks of a shape that cost and draw no more than there is."""
    kept = np.ones(len(shape.bandwidth), dtype=bool)
    for name, limit, own, reason in (
        ("cost", space.cost, shape.cost, "networks cost more than there is"),
        ("power", space.power, shape.power, "networks draw more than there is"),
    ):
        if limit is None:
            continue
        if np.isnan(own).any():
            raise DimsweepError(
                f"the {name} of these networks is not known",
                where=f"space.network.{name}",
                hint=f"cost.{'tiers' if name == 'cost' else 'power'}, or no limit",
            )
        over = kept & (own > limit)
        refused[reason] += int(over.sum())
        kept &= ~over
    return replace(
        shape,
        bandwidth=shape.bandwidth[kept],
        texts=tuple(itertools.compress(shape.texts, kept.tolist())),
        cost=shape.cost[kept],
        power=shape.power[kept],
    )


def _amounts(prices: Prices | None, bandwidth: Floats) -> Floats:
    return np.full(len(bandwidth), np.nan) if prices is None else prices.cost(bandwidth)


def fixed(space: Networks) -> dict[str, object]:
    """The keys that all networks of a space share."""
    priced = any(tier.price for tier in space.tiers)
    return {
        "topology.file": None,
        "topology.latency": [tier.latency.text for tier in space.tiers],
        "topology.tiers": [tier.price for tier in space.tiers] if priced else [],
        "topology.links": [],
        "topology.machines": [],
        "topology.grows": None,
    }
