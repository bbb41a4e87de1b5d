"""What is simulated on: network dimensions, NPU, memory, collectives, links, prices.

Each part builds the engine's object of the same name.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import engine
from engine import (
    DimensionOrder,
    DimsweepError,
    QueueOrder,
    SubgroupBandwidth,
    suggestion,
    units,
)
from engine.cluster import (
    MEMORIES,
    CongestionControl,
    Dataflow,
    EfficiencyCurve,
    Nccl,
    Switching,
    SystolicArray,
    kernel_times,
    network_prices,
    parse_shape,
)
from engine.cluster import TierPrice as EngineTierPrice
from engine.formats import read_measured, read_nccl_tests
from engine.formats.astra_sim import read_topology
from engine.network import Auto, Clos, Dragonfly, Fabric, Mesh, Routing, read_network
from engine.network.fred import Remedy
from engine.network.wafer import FredWafer, MeshWafer, Wafer
from sweeper.config.parts.part import (
    RATE,
    Bandwidth,
    Bandwidths,
    Bytes,
    BytesOrNone,
    Flag,
    Frequency,
    MoneyOrNone,
    Number,
    OneOf,
    Parsed,
    Part,
    Power,
    PowerPerBandwidth,
    PriceOfEnergy,
    PricePerBandwidth,
    Quantity,
    Seconds,
    Time,
    Times,
    Whole,
    default,
    key,
    member,
    mirror,
    one_or_each,
    per_dimension,
    quantity,
    within,
    written,
)
from sweeper.config.parts.places import found
from sweeper.config.parts.precision import PRECISIONS


class Topology(Part):
    """``shape`` such as Ring(4)_Switch(8), innermost dimension first.  ``bandwidth`` (per NPU) and
    ``latency`` (per hop) are one value for all dimensions or a list with one for each.  ``file``:
    an ASTRA-sim network.yml that says all three instead."""

    shape: str | None = None
    bandwidth: Bandwidths | None = None
    latency: Times | None = None
    file: str | None = None
    tiers: tuple[str, ...] = ()

    def build(self) -> engine.Topology:
        """Raises :class:`DimsweepError` naming the key within the topology."""
        if self.file is not None:
            with within("file"):
                return read_topology(found(self.file), list(self.tiers))
        for name in ("shape", "bandwidth", "latency"):
            if getattr(self, name) is None:
                raise DimsweepError("this key needs a value", where=name)
        assert self.shape is not None
        assert self.bandwidth is not None
        assert self.latency is not None
        n = len(parse_shape(self.shape))
        return engine.Topology.build(
            self.shape,
            bandwidth=list(per_dimension(self.bandwidth, n, "bandwidth")),
            latency=list(per_dimension(self.latency, n, "latency")),
            tiers=list(self.tiers),
        )


def _peak(value: Any) -> Quantity | dict[str, Quantity]:
    """One rate for all precisions, or one for each."""
    if not isinstance(value, Mapping):
        return RATE(value)
    rates = {}
    for precision, rate in value.items():
        if precision not in PRECISIONS:
            hint = suggestion(str(precision), PRECISIONS)
            raise DimsweepError("unknown key", where=str(precision), hint=hint)
        try:
            rates[precision] = RATE(rate)
        except DimsweepError as error:
            raise error.at(precision) from error.__cause__
    return rates


def _relative_time(value: Any) -> dict[str, float]:
    """A positive factor for each narrow precision."""
    narrow = [name for name, precision in PRECISIONS.items() if precision.narrow]
    if not isinstance(value, Mapping):
        raise DimsweepError(f"{value!r} is no mapping", hint="such as {fp8: 0.5}")
    for name, factor in value.items():
        if name not in narrow:
            raise DimsweepError("unknown key", where=str(name), hint=suggestion(str(name), narrow))
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not factor > 0:
            raise DimsweepError(f"{factor!r} is no factor", where=str(name))
    return {name: float(factor) for name, factor in value.items()}


_Array = mirror(SystolicArray, clock=Frequency, dataflow=Annotated[Dataflow, member(Dataflow)])


def _systolic(value: Any) -> SystolicArray:
    if isinstance(value, SystolicArray):
        return value
    return SystolicArray(**dict(_Array.of(value)))


def _knot(value: Any) -> tuple[Quantity, float]:
    """Operations of a matrix product, and the share of the peak that it reaches."""
    if (
        not isinstance(value, (list, tuple))
        or len(value) != 2
        or isinstance(value[1], bool)
        or not isinstance(value[1], (int, float))
    ):
        raise DimsweepError(
            f"{value!r} is no pair of operations and efficiency", hint="such as [10 GFLOP, 0.6]"
        )
    return quantity(units.COMPUTE)(value[0]), float(value[1])


_Knot = Annotated[tuple[Quantity, float], Parsed(_knot)]


def _errors(value: Any) -> dict[str, tuple[tuple[int, float], ...]]:
    """By kind of model, NPUs up to which a relative error holds, and the error."""
    if not isinstance(value, Mapping) or not set(value) <= {"dense", "experts"}:
        raise DimsweepError(
            f"{value!r} is no table of errors", hint="such as {dense: [[8, 0.04], [1024, 0.08]]}"
        )
    found = {}
    for kind, steps in value.items():
        rows = steps if isinstance(steps, (list, tuple)) else [steps]
        limits = [step[0] for step in rows if _is_pair(step)]
        if len(limits) != len(rows) or limits != sorted(set(limits)) or not limits:
            raise DimsweepError(
                f"{steps!r} are no pairs of NPUs, rising, and an error", where=str(kind)
            )
        if not all(0 < error < 1 for _, error in steps):
            raise DimsweepError("an error is between 0 and 1", where=str(kind))
        found[str(kind)] = tuple((int(limit), float(error)) for limit, error in steps)
    return found


def _is_pair(value: Any) -> bool:
    """Whether it is two finite numbers."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(type(number) in (int, float) and math.isfinite(number) for number in value)
    )


class Npu(Part):
    """See engine.Npu.  ``flops`` is one rate, or one for each precision; ``matmul_efficiency`` has
    pairs such as [10 GFLOP, 0.6]; ``systolic`` rows, columns, clock, dataflow and arrays (see
    engine.SystolicArray); ``measured`` names a CSV file of kernel, duration; ``kernels`` a
    GPU whose products and attention were measured: a100, h100, h200 or b200; ``relative_time`` how
    long a product in a narrow precision takes, relative to one in bf16.  ``error``: the mean
    relative error of simulated times, for dense models and those with experts, by the number of
    NPUs up to which it holds; it changes no time, and is printed and stored with it."""

    flops: Annotated[Quantity | dict[str, Quantity], Parsed(_peak)] | None = None
    memory_bandwidth: Bandwidth | None = None
    efficiency: float = 1.0
    reduce_bandwidth: Bandwidth | None = None
    memory_efficiency: float = 1.0
    matmul_efficiency: tuple[_Knot, ...] | None = None
    systolic: Annotated[SystolicArray, Parsed(_systolic, lambda a: written(vars(a)))] | None = None
    launch: Time = default("0 ns")
    host: Time = default("0 ns")
    measured: str | None = None
    kernels: str | None = None
    attention_time: float = 1.0
    attention_backward: float = 2.5
    relative_time: Annotated[dict[str, float], Parsed(_relative_time)] = default(dict)
    memory: Bytes | None = None
    error: Annotated[dict[str, tuple[tuple[int, float], ...]], Parsed(_errors)] = default(dict)

    def build(self, precision: str, narrow: str = "") -> engine.Npu:
        """The NPU, computing in ``precision``, and linear layers in a ``narrow`` one if it is
        given."""
        kernels = kernel_times(self.kernels) if self.kernels is not None else None
        known = {*self.relative_time, *(kernels.products if kernels else ())}
        peaks = {narrow: self.peak(narrow)} if narrow and narrow not in known else {}
        curve, measured = self.matmul_efficiency, None
        if self.measured is not None:
            with within("measured"):
                measured = read_measured(found(self.measured))
        own: dict[str, Any] = {
            "flops": self.peak(precision),
            "measured": measured,
            "precision": precision,
        }
        own |= {"kernels": kernels, "narrow": peaks}
        own["plain_flops"] = self.flops.get("fp32") if isinstance(self.flops, dict) else None
        own["matmul_efficiency"] = EfficiencyCurve(curve) if curve else None
        known_keys = {name: value for name, value in self if name != "error"}
        return engine.Npu(**{**known_keys, **own})

    def peak(self, precision: str) -> float | None:
        """FLOP/s in ``precision``, if a rate is given at all."""
        if not isinstance(self.flops, dict):
            return self.flops
        if precision not in self.flops:
            known = ", ".join(self.flops) or "none"
            raise DimsweepError(
                f"no rate for {precision}", where="flops", hint=f"there are: {known}"
            )
        return self.flops[precision]


class Memory(Part):
    """Memory beyond an NPU's own (see engine.cluster.memory); none unless something is given.

    ``kind`` is a name in :data:`engine.cluster.MEMORIES`, whose class says which of the other keys
    it knows; the rest must stay null.
    """

    kind: str = "npu"
    bandwidth: Bandwidth | None = None
    latency: Time | None = None
    capacity: Bytes | None = None
    npus_per_node: Whole | None = None
    drives: Whole | None = None
    link_bandwidth: Bandwidth | None = None
    groups: Whole | None = None
    switches: Whole | None = None
    switch_bandwidth: Bandwidth | None = None
    fabric_bandwidth: Bandwidth | None = None
    chunk: Bytes | None = None

    def build(self) -> engine.RemoteMemory | None:
        """The memory, if there is one.  Raises :class:`DimsweepError` naming the key that is
        missing, or that its kind does not know."""
        given = {name: value for name, value in self if name != "kind" and value is not None}
        if not given:
            return None
        if self.kind not in MEMORIES:
            raise DimsweepError(
                f"there is no memory {self.kind!r}",
                where="kind",
                hint=suggestion(self.kind, MEMORIES),
            )
        known = {field.name for field in dataclasses.fields(MEMORIES[self.kind])}
        for name in given:
            if name not in known:
                raise DimsweepError(
                    f"a memory of kind {self.kind!r} has no {name}",
                    where=name,
                    hint=f"{name}: null, or a kind that has it; keys of {self.kind}: "
                    f"{', '.join(sorted(known))}",
                )
        if self.bandwidth is None:
            raise DimsweepError(
                f"the memory has {', '.join(given)}, but no bandwidth",
                where="bandwidth",
                hint="such as 25 GB/s; memory=none is no memory at all",
            )
        return MEMORIES[self.kind](**given)


class Collective(Part):
    """See engine.CollectiveModel.  ``algorithms``: a list with one for each dimension, or auto.
    ``library``: nccl, which needs to know the kind of ``gpu``; ``measured``: a file of what
    nccl-tests print, or a CSV file with the columns op, gpus, nodes, bytes, time_us."""

    chunks: Whole = 64
    chunks_on_one_dimension: Whole | None = None
    streams: Whole = 1
    order: Annotated[DimensionOrder, member(DimensionOrder)] = default("baseline")
    queue: Annotated[QueueOrder, member(QueueOrder)] = default("fifo")
    subgroup_bandwidth: Annotated[SubgroupBandwidth, member(SubgroupBandwidth)] = default(
        "physical"
    )
    endpoint_delay: Time = default("0 ns")
    algorithms: Annotated[str | tuple[str, ...], Parsed(one_or_each(str))] = "auto"
    library: str | None = None
    gpu: str | None = None
    measured: str | None = None
    node_dimensions: Whole = 1

    def build(self, n_dims: int) -> engine.CollectiveModel:
        """The model of collectives for ``n_dims`` dimensions; reads ``measured`` if it is given."""
        timings = None
        if self.measured is not None:
            with within("measured"):
                timings = read_nccl_tests(found(self.measured))
        told = {name: value for name, value in self if name not in ("gpu", "measured")}
        told["algorithms"] = per_dimension(self.algorithms, n_dims, "algorithms")
        return engine.CollectiveModel(**{**told, "library": self._library(), "timings": timings})

    def _library(self) -> Nccl | None:
        if self.library is None:
            return None
        if self.library != "nccl":
            raise DimsweepError(
                f"there is no collective library {self.library!r}",
                where="library",
                hint=suggestion(self.library, ["nccl"]),
            )
        if self.gpu is None:
            raise DimsweepError(
                "NCCL's times depend on the kind of GPU, which is not known",
                where="gpu",
                hint="such as collective.gpu=h100; npu.kernels says it, too",
            )
        return Nccl(self.gpu)


FABRICS: dict[str, type[Fabric]] = {
    "auto": Auto,
    "mesh": Mesh,
    "clos": Clos,
    "dragonfly": Dragonfly,
}
_FABRIC = OneOf(FABRICS, "kind", "fabric")


WAFERS: dict[str, type[Wafer]] = {"mesh": MeshWafer, "fred": FredWafer}
_WAFER = OneOf(
    WAFERS,
    "kind",
    "wafer",
    link=Bandwidth,
    npu=Bandwidth,
    trunk=Bandwidth,
    io=Bandwidth,
    latency=Time,
    remedy=Annotated[Remedy, member(Remedy)],
)


def _wafer(value: Any) -> Wafer | None:
    wafer: Wafer | None = None if value is None else _WAFER.parse(value)
    return wafer


def _written_wafer(wafer: Wafer | None) -> Any:
    return None if wafer is None else _WAFER.write(wafer)


def _routing(value: Any) -> Routing | None:
    if value is None or value == "auto":
        return None
    try:
        return Routing(value)
    except ValueError:
        known = ["auto", *Routing]
        raise DimsweepError(
            f"{value!r} is none of {', '.join(known)}", hint=suggestion(str(value), known)
        ) from None


class Packets(Part):
    """Packets, buffers and congestion control, for fidelity=packet (see engine.PacketModel)."""

    transport: Annotated[CongestionControl, member(CongestionControl)] = default("dcqcn")
    window: Flag = True
    spray: Flag = False
    payload: Bytes = default("1000 B")
    header: Bytes = default("48 B")
    ack: Bytes = default("60 B")
    buffer: Bytes = default("32 MiB")
    headroom: BytesOrNone | None = None
    kmin: BytesOrNone | None = None
    kmax: Bytes | None = None
    pmax: Number = 0.2

    def build(self) -> engine.PacketModel:
        """The engine's model of the same."""
        return engine.PacketModel(**dict(self))


class Network(Part):
    """Links, switches and routes, for all fidelities but phase (see engine.NetworkModel).
    ``fabric``: what realises the dimensions, one value or a list: auto, mesh, {kind: clos,
    levels: 2, leaf: 8, oversubscription: 2}, {kind: dragonfly, routers: 4, npus: 2}; ``file``: a
    graph instead, node-link JSON or GraphML; ``wafer``: {kind: mesh, columns: 5, rows: 4}
    or {kind: fred, leaves: 5, leaf: 4, remedy: serialise} (see engine.network.wafer) instead."""

    fabric: Annotated[
        Fabric | tuple[Fabric, ...], Parsed(one_or_each(_FABRIC.parse), _FABRIC.write)
    ] = default("auto")
    file: str | None = None
    wafer: Annotated[Wafer | None, Parsed(_wafer, _written_wafer)] = None
    routing: Annotated[Routing | None, Parsed(_routing, lambda found: str(found or "auto"))] = (
        default("auto")
    )
    seed: Whole = 0
    switching: Annotated[Switching, member(Switching)] = default("cut_through")
    packet: BytesOrNone = default("0 B")
    buffer: Bytes | None = None
    window: Whole | None = None
    max_messages: Whole = 10_000_000
    packets: Packets = default(Packets)
    max_packets: Whole = 20_000_000

    def build(self, n_dims: int) -> engine.NetworkModel:
        """The network model; reads ``file`` if it is given."""
        fabrics: tuple[Fabric, ...] = per_dimension(self.fabric, n_dims, "fabric")
        graph = None
        if self.file is not None:
            with within("file"):
                graph = read_network(self.file)
        if self.file is not None or self.wafer is not None:
            if any(fabric != Auto() for fabric in fabrics):
                raise DimsweepError(
                    "give the fabrics of the dimensions or another network, not both",
                    where="fabric",
                )
            fabrics = ()
        plain = {name: value for name, value in self if name not in ("fabric", "file", "packets")}
        with key("packets"):
            packets = self.packets.build()
        return engine.NetworkModel(fabrics=fabrics, graph=graph, packets=packets, **plain)


class TierPrice(Part):
    """Prices per bandwidth, such as "7.8 USD/(GB/s)"; ``port`` and ``block`` are USD at any
    bandwidth, of each NPU in a dimension and of each ring, full mesh or switch in it."""

    link: PricePerBandwidth | None = None
    switch: PricePerBandwidth | None = None
    nic: PricePerBandwidth | None = None
    port: MoneyOrNone = default("0 USD")
    block: MoneyOrNone = default("0 USD")


class TierPower(Part):
    """Watts of a tier's parts, each as :class:`TierPrice` has its price."""

    link: PowerPerBandwidth | None = None
    switch: PowerPerBandwidth | None = None
    nic: PowerPerBandwidth | None = None
    port: Power = default("0 W")
    block: Power = default("0 W")


class ClusterPower(Part):
    """Watts by tier, and of one NPU with its share of the server."""

    tiers: dict[str, TierPower] = default(dict)
    npu: Power = default("0 W")


class Cost(Part):
    """Prices by tier, and of one NPU; ``power``: what they draw.  ``lifetime`` (such as 4 year) and
    ``electricity`` (0.08 USD/kWh) make a price of a token of them."""

    tiers: dict[str, TierPrice] = default(dict)
    npu: MoneyOrNone = default("0 USD")
    power: ClusterPower = default(ClusterPower)
    lifetime: Seconds | None = None
    electricity: PriceOfEnergy = default("0 USD/kWh")

    def build(self, topology: engine.Topology) -> engine.Prices | None:
        """What the network costs; ``None`` when a dimension's tier has no price."""
        prices = _by_tier(topology, self.tiers, self.npu)
        if prices is None:
            return None
        return replace(prices, lifetime=self.lifetime or 0.0, energy=self.electricity)

    def build_power(self, topology: engine.Topology) -> engine.Prices | None:
        """What the cluster draws, in watts; ``None`` when a dimension's tier has none."""
        return _by_tier(topology, self.power.tiers, self.power.npu)


def _by_tier(
    topology: engine.Topology, tiers: Mapping[str, TierPrice | TierPower], npu: float
) -> engine.Prices | None:
    built = {name: EngineTierPrice(**dict(each)) for name, each in tiers.items()}
    return network_prices(topology, built, npu)
