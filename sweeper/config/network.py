"""Keys of links, switches, routes and packets, used by all fidelities except phase."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Annotated, Any, get_origin, get_type_hints

import dimsweep.engine
from dimsweep.engine import DimsweepError, Fidelity, NetworkModel, PacketModel, naming_place, units
from dimsweep.engine.cluster import Mark
from dimsweep.engine.formats import read_any_network, read_ns3_config
from dimsweep.engine.kernels.packet.transports import TRANSPORTS, Balance, Transport
from dimsweep.engine.network import (
    Auto,
    Change,
    Clos,
    Dragonfly,
    Fabric,
    Kind,
    Level,
    LinkRate,
    Mesh,
    Routing,
    Selection,
    build_levels,
)
from dimsweep.engine.network import Network as Graph
from dimsweep.engine.network.generators import GENERATORS, Generator
from dimsweep.sweeper.offers import load_offers
from dimsweep.sweeper.part import (
    Bandwidth,
    CountKey,
    FileName,
    Flag,
    Part,
    Quantity,
    Times,
    ValueParser,
    VariantParser,
    default,
    describe_values,
    expand_npu_numbers,
    expand_per_dimension,
    list_parser,
    member_type,
    mirror,
    naming_key,
    parse_bytes,
    parse_name,
    parse_npu_numbers,
    to_plain,
)
from dimsweep.sweeper.places import find_file

FABRICS: dict[str, type[Fabric]] = {
    "auto": Auto,
    "mesh": Mesh,
    "clos": Clos,
    "dragonfly": Dragonfly,
}
_FABRIC = VariantParser(FABRICS, "kind", "fabric")


GRAPHS = ("file", "levels", "generator")  # keys whose graph replaces the dimensions
#: Types of the keys that extensions add: each key names an :class:`Interconnect`.
_INTERCONNECTS: dict[str, Any] = load_offers("network")


_GENERATOR = VariantParser(GENERATORS, "kind", "generator")
AnyGenerator = Annotated[Generator, ValueParser(_GENERATOR.parse, _GENERATOR.write, GENERATORS)]
MAX_MEMBERS = 100_000


@dataclass(frozen=True)
class GeneratorFamily:
    """The network generators that one entry of ``generators`` describes.

    There is one generator for each combination of the entry's values.
    """

    members: tuple[Generator, ...]
    given: Mapping[str, Any] | None = None  # the entry, if a parameter has several values

    @property
    def text(self) -> Any:
        """The entry as the user wrote it."""
        return _GENERATOR.write(self.members[0]) if self.given is None else dict(self.given)


def _parse_family(value: Any) -> GeneratorFamily:
    """Return the generators that an entry describes; lists as parameters give several generators.

    A parameter that is a tuple varies if it is given as a list of lists.
    """
    if isinstance(value, GeneratorFamily):
        return value
    given = dict(value) if isinstance(value, Mapping) else {}
    kind = GENERATORS.get(given.get("kind", ""))
    several = {} if kind is None else dict(_listed_parameters(kind, given))
    if not several:
        return GeneratorFamily((_GENERATOR.parse(value),))
    if (n := math.prod(map(len, several.values()))) > MAX_MEMBERS:
        problem = f"{n:,} generators; {MAX_MEMBERS:,} are possible"
        raise DimsweepError(problem, hint="give fewer values", code="too-many")
    chosen = (dict(zip(several, each, strict=True)) for each in product(*several.values()))
    return GeneratorFamily(tuple(_GENERATOR.parse({**given, **each}) for each in chosen), given)


def _listed_parameters(
    kind: type[Generator], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield each parameter that is given as a list, with its values."""
    hints = get_type_hints(kind)
    for name, value in given.items():
        listed = get_origin(hints.get(name)) is tuple
        if not isinstance(value, list | tuple):
            continue
        if not value and not listed:
            raise DimsweepError(
                "the list is empty", where=name, hint="give a value", code="missing"
            )
        if not listed or (value and all(isinstance(each, list | tuple) for each in value)):
            yield name, value


AnyFamily = Annotated[
    GeneratorFamily, ValueParser(_parse_family, lambda found: found.text, GENERATORS)
]


@lru_cache(maxsize=4)
def _build_generator(generator: Generator) -> dimsweep.engine.network.Network:
    """Return the network that a generator makes, cached because many trials of a study share it."""
    return generator.build()


# Written as a name, or as a mapping of ``kind`` and other keys.
_TRANSPORT = VariantParser(
    TRANSPORTS, "kind", "transport", balance=Annotated[Balance, member_type(Balance)]
)


def _write_transport(transport: Transport) -> Any:
    """Return a transport as plain data: its name, with the settings that are not defaults."""
    changed = {
        field.name: to_plain(getattr(transport, field.name))
        for field in dataclasses.fields(transport)
        if getattr(transport, field.name) != field.default
    }
    return {"kind": transport.name, **changed} if changed else transport.name


def _parse_routing(value: Any) -> Routing | None:
    name = parse_name("auto" if value is None else value, ["auto", *Routing])
    return None if name == "auto" else Routing(name)


_Mark = mirror(Mark)


class Packets(
    mirror(  # type: ignore[misc]
        PacketModel,
        transport=Annotated[
            Transport,
            ValueParser(_TRANSPORT.parse, _write_transport, TRANSPORTS, takes="transport"),
        ],
        buffer=Annotated[
            Quantity | tuple[Quantity | tuple[Quantity, ...], ...],
            ValueParser(list_parser(list_parser(parse_bytes)), takes="size, or a list of sizes"),
        ],
        marks=tuple[_Mark, ...],  # type: ignore[valid-type]
    )
):
    """Packets, buffers and congestion control: the settings of :class:`PacketModel`, or a file."""

    #: A configuration file of HPCC's or SimAI's ns-3 that sets some of the keys.
    file: FileName | None = None
    #: Whether packets of a message take all shortest paths in turn, as a routing does.
    spray: Flag = False

    def build(self) -> PacketModel:
        """Return the engine's packet model, without ``spray``, which is part of the routing."""
        marks = tuple(Mark(**dict(mark)) for mark in self.marks)
        return PacketModel(**self.settings(PacketModel) | {"marks": marks} | self._file_settings())

    def _file_settings(self) -> dict[str, Any]:
        """Return the keys that the file sets; raises :class:`DimsweepError` for a key set twice."""
        if self.file is None:
            return {}
        with naming_place("file"):
            known = read_ns3_config(find_file(self.file)).packets
        usual = Packets()
        for name in known:
            if getattr(self, name) != getattr(usual, name):
                hint = f"leave it out, or network.packets.file={self.file}"
                problem = "the file sets this key, too"
                raise DimsweepError(problem, where=name, hint=hint, code="duplicate")
        return known


_LinkRate = mirror(LinkRate)
_Level = mirror(Level, bandwidth=Bandwidth, latency=Times, kind=Annotated[Kind, member_type(Kind)])

_Kind = Annotated[Kind, member_type(Kind)]
_Selection = mirror(Selection, kind=_Kind | None, between=tuple[_Kind, _Kind] | None)


def _parse_selection(value: Any) -> Part:
    """Parse a selection of devices or links: a name, the number of an NPU, or a mapping."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"NPU {value}"
    return _Selection.from_plain({"named": value} if isinstance(value, str) else value)


def _write_selection(selection: Part) -> Any:
    given = selection.model_dump(mode="json", exclude_unset=True)
    return given["named"] if [*given] == ["named"] else given


@describe_values("share, such as 50 %")
def parse_share(value: Any) -> Quantity:
    """Return a share such as ``"50 %"`` as a quantity from 0 to 1."""
    text = value.text if isinstance(value, Quantity) else value
    return Quantity(units.parse_share(text), text)


_PLACEMENTS = ("packed", "scattered")


def _parse_placement(value: Any) -> str | tuple[int | str, ...]:
    """Parse a placement of ranks: a named one, or a list of NPU numbers and ranges such as 8-15."""
    return (
        parse_npu_numbers(value)
        if isinstance(value, (list, tuple))
        else parse_name(value, _PLACEMENTS)
    )


def _place_ranks(
    placement: str | tuple[int | str, ...], n_ranks: int, n_npus: int
) -> tuple[int, ...]:
    """Return the NPU of each rank under a ``placement``."""
    if n_ranks > n_npus:
        problem = f"{n_ranks} ranks do not fit on {n_npus} NPUs"
        hint = "increase network.npus, or give a smaller topology.shape"
        raise DimsweepError(problem, hint=hint, code="mismatch")
    if placement == "packed":
        return tuple(range(n_ranks))
    if placement == "scattered":
        return tuple(rank * n_npus // n_ranks for rank in range(n_ranks))
    npus = expand_npu_numbers(tuple(placement), n_npus)
    if len(npus) != n_ranks:
        problem = f"{len(npus)} NPUs for {n_ranks} ranks"
        hint = "list one NPU for each NPU of topology.shape"
        raise DimsweepError(problem, hint=hint, code="mismatch")
    return npus


SelectionKey = Annotated[Part, ValueParser(_parse_selection, _write_selection)] | None
ShareKey = Annotated[Quantity, ValueParser(parse_share)] | None
_Change = mirror(
    Change,
    link=SelectionKey,
    switch=SelectionKey,
    npu=SelectionKey,
    bandwidth=ShareKey,
    speed=ShareKey,
)


def _build_change(change: Part) -> Change:
    return Change(**{name: build_selection(name, value) for name, value in change})


def build_selection(name: str, value: Any) -> Any:
    """Return the engine's selection of links or devices for a key given as a mapping.

    ``name`` is the key. Any other value is returned unchanged.
    """
    if not isinstance(value, Part):
        return value
    with naming_key(name):
        return Selection(**dict(value))


class Network(
    mirror(  # type: ignore[misc]
        NetworkModel,
        without=("fabrics", "graph", "interconnect", "packets", "degrade", "placement", "routing"),
        more=_INTERCONNECTS,
    )
):
    """Links, switches and routes: the settings of :class:`NetworkModel`, or a file with a graph."""

    #: Fabric of the dimensions, one value or a list: auto, mesh, {kind: clos, levels: 2, leaf: 8,
    #: oversubscription: 2}, {kind: dragonfly, routers: 4, npus: 2}.
    fabric: Annotated[
        Fabric | tuple[Fabric, ...],
        ValueParser(list_parser(_FABRIC.parse), _FABRIC.write, takes="fabric, or a list"),
    ] = default("auto")
    #: File of a network graph that replaces the dimensions' links;
    #: :func:`engine.formats.read_any_network` lists the formats.
    file: FileName | None = None
    #: Rates of InfraGraph's links by name: {pcie: {bandwidth: 64 GB/s, latency: 500 ns}}.
    links: dict[str, _LinkRate] = default(dict)  # type: ignore[valid-type]
    #: A network graph level by level (:class:`engine.network.Level`): [{switch: rack, share: 16,
    #: bandwidth: 25 GB/s, latency: 5 us}, {switch: spine, below: rack, count: 8, ...}].
    levels: tuple[_Level, ...] = ()  # type: ignore[valid-type]
    #: A generated network graph (:mod:`engine.network.generators`): {kind: zcube, n: 32, k: 2}.
    generator: AnyGenerator | None = None
    #: How messages are routed; auto: by dimension, by the shortest path on a graph, by all shortest
    #: paths on a generated graph, or by the rule of a network that plans its own collectives.
    routing: Annotated[
        Routing | None,
        ValueParser(_parse_routing, lambda found: str(found or "auto"), choices=("auto", *Routing)),
    ] = default("auto")
    #: Packets, buffers and congestion control, for fidelity=packet.
    packets: Packets = default(Packets)
    #: Degradations (:class:`engine.network.Change`): [{link: NPU 3 -> leaf 0, bandwidth: 50 %},
    #: {switch: leaf 0, down: true}, {npu: 7, speed: 90 %}]. Parts are given by name (`*` stands for
    #: any letters), or as {kind: nic}, {between: [npu, switch]}, {dim: 1}, {kind: switch, draw: 2,
    #: seed: 1}.
    degrade: tuple[_Change, ...] = ()  # type: ignore[valid-type]
    #: Number of NPUs of `levels`; by default the number of ranks.
    npus: CountKey | None = None
    #: NPUs of a larger network that ranks run on, in their order: [0-7, 32-39], [0-31:2] (every
    #: second one), packed (on the first ones), scattered (equally far apart).
    placement: (
        Annotated[str | tuple[int | str, ...], ValueParser(_parse_placement, choices=_PLACEMENTS)]
        | None
    ) = None

    @property
    def links_key(self) -> str:
        """Name of the key that replaces the dimensions' links by a graph.

        It is "" if no such key is set.
        """
        names = (*GRAPHS, *_INTERCONNECTS)
        return next((name for name in names if getattr(self, name)), "")

    def build(self, topology: dimsweep.engine.Topology, fidelity: Fidelity) -> NetworkModel:
        """Return the engine's network model for a ``topology``; reads ``file`` if it is given."""
        fabrics: tuple[Fabric, ...] = expand_per_dimension(
            self.fabric, len(topology.dims), "fabric"
        )
        graph = self._graph(topology)
        if self.links_key:
            if any(fabric != Auto() for fabric in fabrics):
                raise DimsweepError(
                    f"give fabrics of the dimensions or network.{self.links_key}, not both",
                    where="fabric",
                    code="conflict",
                )
            fabrics = ()
        plain = self.settings(NetworkModel)
        own = self.links_key if self.links_key in _INTERCONNECTS else None
        if self.generator is not None and self.routing is None:
            plain["routing"] = Routing.ECMP  # levels and files list the preferred links first
        if self.packets.spray and fidelity is Fidelity.PACKET:
            plain["routing"] = Routing.SPRAY
        with naming_key("packets"):
            plain["packets"] = self.packets.build()
        plain["degrade"] = self._changes()
        plain["placement"] = self._npus_of_ranks(topology.n_npus, graph)
        plain["interconnect"] = getattr(self, own) if own else None
        return NetworkModel(fabrics=fabrics, graph=graph, **plain)

    def _graph(self, topology: dimsweep.engine.Topology) -> Graph | None:
        """Return the graph that replaces the dimensions' links, or None."""
        graph = None
        if self.file is not None:
            with naming_place("file"):
                rates = {name: LinkRate(**dict(rate)) for name, rate in self.links.items()}
                graph = read_any_network(find_file(self.file), rates)
        elif self.links:
            problem, hint = "rates of links need the file of a network", "add network.file"
            raise DimsweepError(problem, where="links", hint=hint, code="missing")
        if self.levels:
            if graph is not None:
                problem = "give a file or levels, not both"
                raise DimsweepError(problem, where="levels", code="conflict")
            with naming_key("levels"):
                levels = [Level(**dict(level)) for level in self.levels]
                graph = build_levels(self.npus or topology.n_npus, levels)
        elif self.npus is not None:
            problem, hint = "it is the number of NPUs of levels", "add network.levels, or remove it"
            raise DimsweepError(problem, where="npus", hint=hint, code="missing")
        if self.generator is not None:
            if graph is not None:
                raise DimsweepError(
                    "give a file, levels or a generator, not several",
                    where="generator",
                    code="conflict",
                )
            with naming_key("generator"):
                graph = _build_generator(self.generator)
        return graph

    def _changes(self) -> tuple[Change, ...]:
        changes = list[Change]()
        for i, change in enumerate(self.degrade):
            with naming_key(f"degrade[{i}]"):
                changes.append(_build_change(change))
        return tuple(changes)

    def _npus_of_ranks(self, n_ranks: int, graph: Graph | None) -> tuple[int, ...]:
        """Return the NPU of each rank; empty if rank i is on NPU i."""
        if self.placement is None:
            return ()
        with naming_key("placement"):
            if graph is None:
                raise DimsweepError(
                    "a network of the topology's dimensions has a rank on every NPU",
                    hint="give a larger network: network.file, network.generator, or "
                    "network.levels with network.npus",
                    code="conflict",
                )
            return _place_ranks(self.placement, n_ranks, graph.n_npus)
