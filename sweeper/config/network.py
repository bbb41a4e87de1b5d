"""Links, switches, routes and packets, for fidelities that know them."""

import dataclasses
from typing import Annotated, Any

import engine
from engine import DimsweepError, suggestion
from engine.cluster import Switching
from engine.kernels.packet.transports import TRANSPORTS, Transport
from engine.network import Auto, Clos, Dragonfly, Fabric, Mesh, Routing, read_network
from engine.network.fred import Remedy
from engine.network.wafer import FredWafer, MeshWafer, Wafer
from sweeper.config.parts.part import (
    BYTES,
    Bandwidth,
    Bytes,
    BytesOrNone,
    Flag,
    Number,
    OneOf,
    Parsed,
    Part,
    Quantity,
    Time,
    Whole,
    default,
    key,
    member,
    one_or_each,
    per_dimension,
    within,
    written,
)

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


# Its name alone, or a mapping of some of its keys and of ``kind``.
_TRANSPORT = OneOf(TRANSPORTS, "kind", "transport")


def _transport(value: Any) -> Transport:
    transport: Transport = _TRANSPORT.parse(value)
    return transport


def _written_transport(transport: Transport) -> Any:
    """Only what is not as usual."""
    changed = {
        field.name: written(getattr(transport, field.name))
        for field in dataclasses.fields(transport)
        if getattr(transport, field.name) != field.default
    }
    return {"kind": transport.name, **changed} if changed else transport.name


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

    transport: Annotated[Transport, Parsed(_transport, _written_transport, TRANSPORTS)] = default(
        "dcqcn"
    )
    window: Flag = True
    spray: Flag = False
    payload: Bytes = default("1000 B")
    header: Bytes = default("48 B")
    ack: Bytes = default("60 B")
    buffer: Annotated[
        Quantity | tuple[Quantity | tuple[Quantity, ...], ...],
        Parsed(one_or_each(one_or_each(BYTES))),
    ] = default("32 MiB")
    headroom: BytesOrNone | None = None
    kmin: BytesOrNone | None = None
    kmax: Bytes | None = None
    pmax: Number = 0.2
    pauses: Flag | None = None
    rto_min: Time = default("200 ms")
    priorities: Whole = 1

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
