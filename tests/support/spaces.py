"""Small spaces of networks and plans: random ones, and the loss of every design by simulation.

The enumeration knows nothing of the search: each design has all its keys set, as on a command line.
"""

import random
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import yaml

from dimsweep.engine import DimsweepError, Result
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Plans
from dimsweep.sweeper.simulation.simulate import simulate

AXES = ("tensor", "context", "expert", "pipeline")
KEYS = ("micro_batch", "interleave", "zero", "recompute", "schedule", "offload")
UNBOUNDED = ("zb_h1", "dualpipe")  # schedules that searches leave out
Space = dict[str, Any]
Losses = list[tuple[float, float | None]]  # of each design; and USD


def simulate_all(config: Config) -> Losses:
    """Return the loss in the first objective, and the cost, of every feasible design of a study."""
    found, known = Losses(), dict[str, tuple[float, float | None] | None]()
    for network, plan in product(_networks(config), _plans(config)):
        design = _design(config, network, plan)
        if design is None:
            continue
        if (name := repr(sorted(design.items()))) not in known:
            try:
                known[name] = _loss(config, simulate(config.with_values(design)))
            except DimsweepError:
                known[name] = None
        if (own := known[name]) is not None:
            found.append(own)
    return found


def _loss(config: Config, result: Result) -> tuple[float, float | None] | None:
    objective, merits = config.objective[0], result.merits
    value = {
        "time": result.time,
        "perf_per_cost": result.perf_per_cost,
        "energy": merits.get("energy_j"),
        "perf_per_watt": merits.get("perf_per_watt"),
    }[objective.name]
    has_all = value is not None and (len(config.objective) == 1 or result.cost is not None)
    return (objective.loss(value), result.cost) if has_all else None


def _networks(config: Config) -> Iterator[dict[str, Any]]:
    """Yield the keys of each network, and its number of NPUs as ``npus``."""
    space = config.space.plain()["network"]
    several = [{}, *space["memory"]][bool(space["memory"]) :]
    for network, memory in product([*_products(space), *_generated(space)], several):
        more = {"npu.memory": memory["size"]} if memory else {}
        more |= {"cost.npu": memory["price"]} if memory.get("price") else {}
        yield {**network, **more}


def _products(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    npus = space["npus"]
    most, tiers = npus if isinstance(npus, int) else npus["at_most"], space["tiers"]
    least = npus if isinstance(npus, int) else npus["at_least"]
    each = [
        product(tier["blocks"], tier["sizes"] or range(1, most + 1), tier["bandwidth"])
        for tier in tiers
    ]
    for dims in product(*each) if tiers else ():
        n = prod(size for _, size, _ in dims)
        if least <= n <= most:
            priced = any(tier["price"] for tier in tiers)
            yield {
                "npus": n,
                "topology.shape": "_".join(f"{block}({size})" for block, size, _ in dims),
                "topology.bandwidth": [bandwidth for _, _, bandwidth in dims],
                "topology.latency": [tier["latency"] for tier in tiers],
                "topology.tiers": [tier["price"] for tier in tiers] if priced else [],
            }


def _generated(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for generator in space["generators"]:
        yield {
            "npus": space["npus"],
            "topology.shape": f"Switch({space['npus']})",
            "topology.bandwidth": "1 GB/s",
            "topology.latency": "0 s",
            "topology.tiers": [],
            "network.generator": generator,
            "fidelity": "flow",
        }


def _plans(config: Config) -> Iterator[dict[str, Any]]:
    plans = (config.space.plan or Plans()).plain()
    own = {name: plans[name] or [config.text["workload"]["plan"][name]] for name in KEYS}
    for values in product(*(plans[axis] for axis in AXES), plans["orders"], *own.values()):
        plan = dict(zip((*AXES, "order", *KEYS), values, strict=True))
        if plan["pipeline"] == 1:  # nothing to interleave, and no bubbles to fill
            plan["interleave"] = 1
            plan["schedule"] = "1f1b" if plan["schedule"] in UNBOUNDED else plan["schedule"]
        if plan["schedule"] not in UNBOUNDED:
            yield plan


def _design(
    config: Config, network: Mapping[str, Any], plan: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return all keys of a design; None if the degrees do not make the number of NPUs."""
    data, left = divmod(network["npus"], prod(plan[axis] for axis in AXES))
    if left:
        return None
    degrees = {**plan, "data": data}
    none = {"topology.file": None, "topology.links": [], "topology.machines": []}
    return {
        **none,
        **{name: value for name, value in network.items() if name != "npus"},
        **{f"workload.plan.{name}": plan[name] for name in KEYS},
        "workload.parallel": {a: degrees[a] for a in plan["order"] if degrees[a] > 1},
    }


# --- random spaces --------------------------------------------------------------------------------

_OBJECTIVES = ("time", "perf_per_cost", "time", "energy", "perf_per_watt", ["time", "cost"])
_DENSE = {"hidden": 1024, "heads": 16, "sequence": 512}
_MOE = {"hidden": 512, "heads": 8, "sequence": 256, "ffn": 1024, "expert_ffn": 512, "experts": 4}


def random_study(seed: int) -> Space:
    """Return a study of a few designs of eight NPUs; lists have any order, and repeat values."""
    draw = random.Random(seed)

    def some(*values: Any, most: int = 2) -> list[Any]:
        found = draw.sample(values, draw.randint(1, min(most, len(values))))
        return found + draw.choices(found, k=draw.random() < 0.2)

    has_experts = draw.random() < 0.25
    plan: dict[str, Any] = {"tensor": some(1, 2, 4), "pipeline": some(1, 2)}
    if draw.random() < 0.3 or has_experts:
        plan |= {"context": some(1, 2)} if draw.random() < 0.5 else {}
        plan |= {"expert": some(1, 2)} if has_experts else {}
    keys = {
        "interleave": some(1, 2),
        "schedule": some("gpipe", "1f1b", "zb_h1"),
        "zero": some(0, 1, 2, 3, most=3),
        "recompute": some("none", "selective", "full"),
        "micro_batch": some(1, 2),
        "offload": some([], ["optimizer"], "auto"),
    }
    plan |= {name: keys[name] for name in draw.sample([*keys], draw.randint(1, 3))}
    if draw.random() < 0.3:
        axes = [*AXES, "data"]
        plan["orders"] = [draw.sample(axes, len(axes)) for _ in range(2)]
    own = {
        "batch": draw.choice([8, 16, 12]),
        "interleave": draw.choice([1, 1, 2]),
        "zero": draw.choice([0, 1, 2]),
        "overlap_parameters": draw.random() < 0.2,
    }
    study: Space = {
        "defaults": [
            {"override /workload": "mixtral_8x22b" if has_experts else "gpt3_13b"},
            {"override /npu": "h100"},
            {"override /cost": "dgx_h100"},
            {"override /collective": "whole"},
            *([{"override /memory": "host"}] if "offload" in plan else []),
            "_self_",
        ],
        "workload": {"model": {"layers": 4, **({} if has_experts else _DENSE)}, "plan": own},
        "npu": {
            "memory": "2 TB" if has_experts else draw.choice(["80 GB", "80 GB", "1 GB", "0.7 GB"])
        },
        "objective": draw.choice(_OBJECTIVES),
        "what_if": None,
        "space": {"network": _random_network(draw, some), "plan": plan},
    }
    return study


def _random_network(draw: random.Random, some: Any) -> Space:
    blocks = ("Ring", "FullyConnected", "Switch")

    def tier(sizes: list[int], price: str) -> Space:
        bandwidth = some("450 GB/s", "100 GB/s", "25 GB/s")
        return {"blocks": some(*blocks), "sizes": sizes, "bandwidth": bandwidth, "price": price}

    inner = draw.choice([1, 2, 4])
    tiers = [tier([8 // inner], "pod")]
    if inner > 1 or draw.random() < 0.5:
        tiers.insert(draw.randint(0, 1), tier([inner], "package"))
    if draw.random() < 0.15:
        return {
            "npus": 8,
            "tiers": tiers[:1] if len(tiers) == 1 else [],
            "generators": [{"kind": "zcube", "n": 2, "k": 3, "bandwidth": "25 GB/s"}],
        }
    memory = [{"size": "1 GB", "price": "20 kUSD"}, {"size": "80 GB", "price": "22 kUSD"}]
    return {"npus": 8, "tiers": tiers, "memory": memory if draw.random() < 0.15 else []}


def vary(study: Space, draw: random.Random) -> Space:
    """Return a study of the same designs: every list in another order and with a value repeated,
    and a tier of one NPU more."""
    space = study["space"]
    plan = {name: _shuffled(values, draw) for name, values in space["plan"].items()}
    network = dict(space["network"])
    tiers = [
        {k: _shuffled(v, draw) if isinstance(v, list) else v for k, v in tier.items()}
        for tier in network["tiers"]
    ]
    one = {"blocks": ["Switch", "Ring"], "sizes": [1], "bandwidth": ["9 TB/s"], "price": "package"}
    if tiers:
        tiers.insert(draw.randint(0, len(tiers)), one)
    memory = _shuffled(network.get("memory", []), draw)
    network |= {"tiers": tiers, "memory": memory}
    return {**study, "space": {"network": network, "plan": plan}}


def _shuffled(values: list[Any], draw: random.Random) -> list[Any]:
    return draw.sample(values, len(values)) + draw.choices(values, k=1) if values else []


def text_of(study: Space) -> str:
    """Return a study's file."""
    return yaml.safe_dump(study, sort_keys=False)


def config_of(file: Any) -> Config:
    """Return the configuration of a study's file."""
    return compose([f"study={file}"]).config
