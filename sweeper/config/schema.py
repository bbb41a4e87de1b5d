"""The configuration's keys and types, as Hydra structured configs.

Values live in conf/ and studies/; this file says which keys exist.  Quantities are strings with a
unit ("200 GB/s"); a bare number where a unit is needed is refused when the objects are built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class Workload:
    """What runs.  ``parallel`` places named axes on the dimensions, the first one innermost: a
    degree, "rest", or a size for each dimension."""

    name: str = MISSING
    parallel: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """How a model is trained or served (see engine.Plan and engine.Serving): ``batch`` sequences or
    samples in all, or ``micro_batches`` of each replica."""

    task: str = "training"
    batch: int | None = None
    micro_batches: int | None = None
    micro_batch: int = 1
    precision: str = "bf16"
    gradients: str | None = None
    schedule: str = "1f1b"
    interleave: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    zero: int = 0
    optimizer: str = "adam"
    gradient_exchange: str = "all_reduce"
    overlap_gradients: bool = True
    bucket: str = "25 MB"
    offload: Any = "auto"


@dataclass
class Model(Workload):
    """A model from its dimensions: ``family`` transformer, convnet, dlrm or gnmt, and that family's
    keys (see engine.model); ``parallel`` has the axes tensor, context, expert,
    pipeline and data."""

    model: dict[str, Any] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)


@dataclass
class Layered(Workload):
    """Layers one after another; ``loop``: how communication overlaps with compute."""

    loop: str = "no_overlap"


@dataclass
class Transformer(Layered):
    """Transformer blocks from their dimensions (see engine.workload.TransformerSlice)."""

    hidden: int = MISSING
    layers: int = MISSING
    batch: int = MISSING
    sequence: int = MISSING
    bytes_per_value: int = 2
    flops: str = MISSING


@dataclass
class Convolution:
    """Input and output channels, kernel width, measured durations."""

    name: str = MISSING
    inputs: int = MISSING
    outputs: int = MISSING
    kernel: int = 1
    forward: str = MISSING
    input_grad: str = MISSING
    weight_grad: str = MISSING


@dataclass
class ConvNet(Layered):
    """A convolutional network, data parallel."""

    bytes_per_value: int = 2
    layers: list[Convolution] = field(default_factory=list)


@dataclass
class Pass:
    """One pass of a layer: a measured ``duration``, or ``flops`` and ``bytes`` for the NPU's
    roofline; then perhaps a ``collective`` of ``size`` over an axis (``group``)."""

    duration: str | None = None
    flops: str | None = None
    bytes: str | None = None
    collective: str | None = None
    size: str | None = None
    group: str | None = None


@dataclass
class Layer:
    """``repeat`` equal layers."""

    name: str = MISSING
    repeat: int = 1
    forward: Pass = field(default_factory=Pass)
    input_grad: Pass = field(default_factory=Pass)
    weight_grad: Pass = field(default_factory=Pass)


@dataclass
class Layers(Layered):
    """Layers written out."""

    layers: list[Layer] = field(default_factory=list)


@dataclass
class Astra1Text(Layered):
    """An ASTRA-sim 1.0 workload file; ``groups``: the axis that each pass communicates over."""

    file: str = MISSING
    groups: dict[str, str] = field(
        default_factory=lambda: {
            "forward": "tensor",
            "input_grad": "tensor",
            "weight_grad": "data",
        }
    )


@dataclass
class ChakraTraces(Workload):
    """Chakra execution traces: ``traces`` is PREFIX of PREFIX.<rank>.et, or one .et file for all
    ranks; ``groups`` a file of communicator groups.  Both may lie beside the studies."""

    traces: str = MISSING
    groups: str | None = None


@dataclass
class Topology:
    """``shape`` such as Ring(4)_Switch(8), innermost dimension first.  ``bandwidth`` (per NPU) and
    ``latency`` (per hop) are one value for all dimensions or a list with one for each.  ``file``:
    an ASTRA-sim network.yml that says all three instead."""

    shape: str = MISSING
    bandwidth: Any = MISSING
    latency: Any = MISSING
    file: str | None = None
    tiers: list[str] = field(default_factory=list)


@dataclass
class Npu:
    """See engine.Npu.  ``flops`` is one rate, or one for each precision; ``matmul_efficiency`` has
    pairs such as [10 GFLOP, 0.6]; ``systolic`` rows, columns, clock, dataflow and arrays (see
    engine.SystolicArray); ``measured`` names a CSV file of kernel, duration."""

    flops: Any = None
    memory_bandwidth: str | None = None
    efficiency: float = 1.0
    reduce_bandwidth: str | None = None
    memory_efficiency: float = 1.0
    matmul_efficiency: Any = None
    systolic: Any = None
    launch: str = "0 ns"
    measured: str | None = None
    memory: str | None = None


@dataclass
class Collective:
    """See engine.CollectiveModel.  ``algorithms``: a list with one for each dimension, or auto."""

    chunks: int = 64
    chunks_on_one_dimension: int | None = None
    order: str = "baseline"
    queue: str = "fifo"
    subgroup_bandwidth: str = "physical"
    endpoint_delay: str = "0 ns"
    algorithms: Any = "auto"


@dataclass
class Network:
    """Links, switches and routes, for fidelity=message (see engine.NetworkModel).  ``fabric``: what
    realises the dimensions, one value or a list: auto, mesh, {kind: clos, levels: 2, leaf: 8,
    oversubscription: 2}, {kind: dragonfly, routers: 4, npus: 2}; ``file``: a graph instead,
    node-link JSON or GraphML."""

    fabric: Any = "auto"
    file: str | None = None
    routing: str = "auto"
    seed: int = 0
    switching: str = "cut_through"
    packet: str = "0 B"
    buffer: str | None = None
    window: int | None = None
    max_messages: int = 10_000_000


@dataclass
class TierPrice:
    """Prices per bandwidth, such as "7.8 USD/(GB/s)"; ``port`` and ``block`` are USD at any
    bandwidth, of each NPU in a dimension and of each ring, full mesh or switch in it."""

    link: str | None = None
    switch: str | None = None
    nic: str | None = None
    port: str = "0 USD"
    block: str = "0 USD"


@dataclass
class Memory:
    """Remote memory of each NPU (see engine.RemoteMemory); none without a ``bandwidth``."""

    bandwidth: str | None = None
    latency: str = "0 ns"
    capacity: str | None = None


@dataclass
class Cost:
    """Prices by tier, and of one NPU."""

    tiers: dict[str, TierPrice] = field(default_factory=dict)
    npu: str = "0 USD"


class SamplerName(Enum):
    auto = "auto"
    random = "random"
    qmc = "qmc"
    tpe = "tpe"
    cmaes = "cmaes"
    gp = "gp"
    nsga2 = "nsga2"
    descent = "descent"


@dataclass
class Search:
    """``batch`` trials at most are asked for at a time, one batch ahead of the results (when they
    are there, where slopes are learnt from), so that a study does not depend on how many actors run
    it.
    ``enqueue``: also try the equal split, the traffic-proportional one and the bound's, first."""

    sampler: SamplerName = MISSING
    seed: int = 0
    batch: int = 8
    enqueue: bool = True
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Split:
    """Bandwidths on a grid of ``step`` that sum to ``total``, or for which the network costs
    ``cost`` (such as "20 MUSD", NPUs and fixed parts included), or that are free up to ``max``; not
    searched at all unless one is given.  ``bisection``: what the machine's halves can send each
    other at least, one way; alone, the least bandwidths that give it.  ``min`` and ``max`` are one
    value or a list; ``constraints`` such as "b0 >= b1", "b2 + b3 == 200 GB/s"; ``known`` lists
    splits to try first."""

    total: str | None = None
    cost: str | None = None
    bisection: str | None = None
    min: Any = "1 GB/s"
    max: Any = None
    step: str = "0.1 GB/s"
    constraints: list[str] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)


@dataclass
class Space:
    """What is searched: the split of the bandwidth, and any other keys, each with ``values`` or
    with ``low`` and ``high`` (and ``step``, ``log``)."""

    bandwidth: Split = field(default_factory=Split)
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass
class Budget:
    """Trials for each search, which stops earlier when its best trial is within ``gap`` of the
    proven bound: 1e-4 is 0.01 %."""

    trials: int = 300
    gap: float | None = None


@dataclass
class Recheck:
    """How many of a search's best designs are simulated again, message by message."""

    top: int = 0


@dataclass
class Portfolio:
    """One split for several workloads, options of the config group with a weight each: the study
    searches each one's own optimum, and then the split that is best for all by ``measure``:
    weighted_time, worst_regret, or cvar at ``level``."""

    workloads: dict[str, float] = field(default_factory=dict)
    measure: str = "worst_regret"
    level: float = 0.9


class Mode(Enum):
    local = "local"
    address = "address"
    inline = "inline"


@dataclass
class Executor:
    """Where trials are simulated: Ray actors on this machine (``local``) or on a running Ray
    cluster (``address``), or in this process (``inline``).  ``timeout`` is for a batch."""

    mode: Mode = Mode.local
    actors: int | None = None
    address: str | None = None
    timeout: str = "600 s"


@dataclass
class Root:
    """Everything."""

    workload: Workload = MISSING
    topology: Topology = field(default_factory=Topology)
    npu: Npu = field(default_factory=Npu)
    memory: Memory = field(default_factory=Memory)
    cost: Cost = field(default_factory=Cost)
    collective: Collective = field(default_factory=Collective)
    network: Network = field(default_factory=Network)
    fidelity: str = "phase"
    fold: bool = True
    # a study
    name: str | None = None
    objective: Any = "time"
    space: Space = field(default_factory=Space)
    grid: dict[str, Any] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    budget: Budget = field(default_factory=Budget)
    recheck: Recheck = field(default_factory=Recheck)
    portfolio: Portfolio = field(default_factory=Portfolio)
    # how it is run; none of these changes a result
    executor: Executor = field(default_factory=Executor)
    results: str = "results"
    timeline: str | None = None
    picture: str | None = None


# Keys that change how a study is run but no row of it.
RUNTIME_KEYS = ("executor", "results", "timeline", "picture", "budget", "recheck", "name")


def register() -> None:
    """Make the schemas known to Hydra; a workload file names its own in its defaults list."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Root)
    for name, node in (
        ("model", Model),
        ("transformer", Transformer),
        ("convnet", ConvNet),
        ("layers", Layers),
        ("astra1_text", Astra1Text),
        ("chakra", ChakraTraces),
    ):
        store.store(group="workload/kind", name=name, node=node, package="workload")
