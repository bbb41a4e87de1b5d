"""From plain configuration to the engine's objects.

Errors name the key (``topology.bandwidth[1]``); :meth:`Composed.blame` adds the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimensionOrder,
    DimsweepError,
    Fidelity,
    Group,
    Program,
    QueueOrder,
    RemoteMemory,
    SubgroupBandwidth,
    Topology,
    Workload,
    lower,
    place,
    units,
)
from engine.cluster import TierPrice, network_prices, parse_shape
from engine.formats import read_astra1_layers
from engine.formats.astra_sim import read_topology
from engine.formats.chakra import read_chakra_workload
from engine.kernels.message import by_rank
from engine.workload import (
    AXES,
    Communication,
    Convolution,
    Layer,
    Pass,
    TrainingLoop,
    TransformerSlice,
    data_parallel,
    training_iteration,
)
from sweeper.build.models import model_workload, precision_of
from sweeper.build.network import network_model
from sweeper.build.npu import build_npu
from sweeper.config.compose import found
from sweeper.config.parse import bandwidth, choice, key, one_per_dim, optional

Config = Mapping[str, Any]


def build_program(config: Config) -> Program:
    """The program of a whole configuration, rank by rank if every message is to be simulated."""
    by_message = is_by_message(config)
    cluster = build_cluster(config)
    workload = build_workload(config, cluster)
    program = lower(workload, cluster, fold=config["fold"] or by_message)
    return by_rank(program) if by_message else program


def is_by_message(config: Config) -> bool:
    """Whether the message kernel is to simulate."""
    with key("fidelity"):
        return choice(config["fidelity"], Fidelity) is Fidelity.MESSAGE


def build_cluster(config: Config) -> Cluster:
    """Topology, NPU, collective model, network and prices."""
    with key("topology"):
        topology = _topology(config["topology"])
    precision = precision_of(config["workload"])
    with key("npu"):
        npu = build_npu(config["npu"], precision)
    with key("memory"):
        memory = _memory(config["memory"])
    with key("collective"):
        collectives = _collectives(config["collective"], len(topology.dims))
    with key("network"):
        network = network_model(config["network"], len(topology.dims))
    with key("cost"):
        tiers = {str(name): _tier(str(name), p) for name, p in config["cost"]["tiers"].items()}
        with key("npu"):
            npu_price = units.parse(config["cost"]["npu"], units.MONEY, zero=True)
        prices = network_prices(topology, tiers, npu_price)
    return Cluster(topology, npu, collectives, network, prices, memory)


def build_workload(config: Config, cluster: Cluster) -> Workload:
    """The operator graph and process groups of ``config["workload"]``."""
    workload, sizes = config["workload"], cluster.topology.sizes
    if "traces" in workload:
        groups_file = None if workload["groups"] is None else found(workload["groups"])
        try:
            return read_chakra_workload(
                found(workload["traces"]), groups_file, sizes, workload["name"]
            )
        except DimsweepError as error:  # its place is one in the traces
            where = f"workload.traces: {error.where}"
            raise DimsweepError(error.what, where=where, hint=error.hint) from error.__cause__
    if "model" in workload:
        return model_workload(workload, cluster)
    with key("workload"):
        with key("parallel"):
            groups = place(workload["parallel"], sizes, _axes(workload))
        with key("loop"):
            loop = choice(workload["loop"], TrainingLoop)
        layers = _layers(workload, groups)
        for layer in layers:
            for part in (layer.forward, layer.input_grad, layer.weight_grad):
                if part.communication and part.communication.group not in groups:
                    raise DimsweepError(
                        f"layer {layer.name!r} communicates over {part.communication.group!r}, "
                        "which is no axis of the parallel plan",
                        where="parallel",
                        hint=f"axes: {', '.join(groups) or 'none'}",
                    )
        graph = training_iteration(layers, loop)
    return Workload((graph,), groups, name=workload["name"])


def _topology(config: Config) -> Topology:
    if config["file"] is not None:
        return read_topology(found(config["file"]), config["tiers"])
    n = len(parse_shape(config["shape"]))
    with key("bandwidth"):
        bandwidths = one_per_dim(config["bandwidth"], n, bandwidth)
    with key("latency"):
        latencies = one_per_dim(config["latency"], n, units.parse_time)
    return Topology.build(
        config["shape"], bandwidth=bandwidths, latency=latencies, tiers=config["tiers"]
    )


def _memory(config: Config) -> RemoteMemory | None:
    if config["bandwidth"] is None:
        return None
    with key("bandwidth"):
        rate = bandwidth(config["bandwidth"])
    with key("latency"):
        latency = units.parse_time(config["latency"])
    with key("capacity"):
        capacity = optional(config["capacity"], units.BYTES)
    return RemoteMemory(rate, latency, capacity)


def _collectives(config: Config, n_dims: int) -> CollectiveModel:
    with key("order"):
        order = choice(config["order"], DimensionOrder)
    with key("queue"):
        queue = choice(config["queue"], QueueOrder)
    with key("subgroup_bandwidth"):
        subgroup = choice(config["subgroup_bandwidth"], SubgroupBandwidth)
    with key("endpoint_delay"):
        delay = units.parse_time(config["endpoint_delay"])
    with key("algorithms"):
        algorithms = tuple(one_per_dim(config["algorithms"], n_dims, str))
    return CollectiveModel(
        config["chunks"],
        order,
        queue,
        subgroup,
        delay,
        algorithms,
        config["chunks_on_one_dimension"],
    )


def _tier(name: str, config: Config) -> TierPrice:
    prices: dict[str, Any] = {}
    for part in ("link", "switch", "nic"):
        with key("tiers"), key(name), key(part):
            prices[part] = optional(config[part], units.PRICE_PER_BANDWIDTH)
    for part in ("port", "block"):
        with key("tiers"), key(name), key(part):
            prices[part] = units.parse(config[part], units.MONEY, zero=True)
    return TierPrice(**prices)


# --- layers -------------------------------------------------------------------------------------


def _axes(workload: Config) -> list[str]:
    """The names that an axis may have: those of all models, and those that the layers name."""
    named = set(workload.get("groups", {}).values())
    layers = workload.get("layers")  # a TransformerSlice has a number of them
    for layer in layers if isinstance(layers, list) else []:
        passes = (layer.get(name) or {} for name in ("forward", "input_grad", "weight_grad"))
        named |= {part.get("group") for part in passes if isinstance(part, Mapping)}
    return [*AXES, *sorted(named - {None, *AXES})]


def _layers(workload: Config, groups: Mapping[str, Group]) -> list[Layer]:
    """The layers of whichever kind of workload this is; its keys tell."""
    if "file" in workload:
        with key("groups"):
            unknown = set(workload["groups"]) - {"forward", "input_grad", "weight_grad"}
            if unknown:
                raise DimsweepError(f"{sorted(unknown)[0]!r} is no pass of a layer")
        return read_astra1_layers(Path(workload["file"]), workload["groups"])
    if "hidden" in workload:
        return _transformer(workload, groups)
    if "bytes_per_value" in workload:
        with key("layers"):
            return data_parallel(
                [_convolution(i, layer) for i, layer in enumerate(workload["layers"])],
                workload["bytes_per_value"],
            )
    layers = []
    for i, layer in enumerate(workload.get("layers", [])):
        with key(f"layers[{i}]"):
            if not 1 <= layer["repeat"] <= 100_000:
                raise DimsweepError(f"{layer['repeat']} is not in 1..100000", where="repeat")
            passes = [_pass(layer, name) for name in ("forward", "input_grad", "weight_grad")]
            layers += [Layer(layer["name"], *passes)] * layer["repeat"]
    if not layers:
        raise DimsweepError(
            "a workload without layers", hint="start its file with defaults: [kind/layers, _self_]"
        )
    return layers


def _transformer(workload: Config, groups: Mapping[str, Group]) -> list[Layer]:
    with key("flops"):
        flops = units.parse(workload["flops"], units.COMPUTE_RATE)
    dimensions = ("hidden", "layers", "batch", "sequence", "bytes_per_value")
    tensor = groups["tensor"].n_members if "tensor" in groups else 1
    return TransformerSlice(
        tensor=tensor, flops=flops, **{key: workload[key] for key in dimensions}
    ).build()


def _convolution(i: int, layer: Config) -> Convolution:
    times: dict[str, Any] = {}
    for name in ("forward", "input_grad", "weight_grad"):
        with key(f"[{i}]"), key(name):
            times[name] = units.parse_time(layer[name])
    shape = {key: layer[key] for key in ("name", "inputs", "outputs", "kernel")}
    return Convolution(**shape, **times)


def _pass(layer: Config, name: str) -> Pass:
    config = layer[name]
    with key(name):
        return Pass(_compute(config), _communication(config))


def _compute(config: Config) -> Compute:
    with key("duration"):
        if config["duration"] is not None:
            if config["flops"] is not None or config["bytes"] is not None:
                raise DimsweepError("give a duration, or flops and bytes, not both")
            return Compute(duration=units.parse_time(config["duration"]))
    with key("flops"):
        flops = optional(config["flops"], units.COMPUTE) or 0.0
    with key("bytes"):
        n_bytes = optional(config["bytes"], units.BYTES) or 0.0
    return Compute(flops, n_bytes)


def _communication(config: Config) -> Communication | None:
    given = {key for key in ("collective", "size", "group") if config[key] is not None}
    if not given:
        return None
    absent = sorted({"collective", "size", "group"} - given)
    if absent:
        raise DimsweepError("a collective needs its kind, its size and its group", where=absent[0])
    with key("collective"):
        kind = choice(config["collective"], CollectiveKind)
    with key("size"):
        size = units.parse(config["size"], units.BYTES, zero=True)
    return Communication(kind, size, config["group"])
