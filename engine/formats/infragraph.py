"""Read InfraGraph files: devices with counted components, and the links between them.

The format is InfraGraph's (Keysight and MLCommons, github.com/Keysight/infragraph, schema 2.4,
``artifacts/openapi.yaml``), in YAML or JSON.  A component that is a device stands for
that device's components.  An end of an edge names some of them, as in ``xpu[0:4]`` or
``cx5[0:2].port[0]``, or all of them without brackets.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, naming_place, prefixing_errors, suggest_names
from dimsweep.engine.formats.reading import read_json, read_text, read_yaml, validated
from dimsweep.engine.network import Kind, LinkRate, Network
from dimsweep.engine.topology.blocks import Node

_WRAPPER = "infrastructure"  # the only key of files that hold more than InfraGraph's schema
_MOST = 1_000_000  # components, or pairs of them
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_COMPONENT = re.compile(r"([^\[\]]+)(?:\[(\d*)(?:(:)(\d*)(?::(\d+))?)?\])?")
_BYTES = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}
_PICOSECONDS = {"ms": 10**9, "us": 10**6, "ns": 10**3}
_KINDS = {"cpu": Kind.HOST, "nic": Kind.NIC, "memory": Kind.MEMORY}  # all others switch
_Text = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(strict=True, ge=1)]
_Amount = Annotated[float, Field(ge=0)]
_T = TypeVar("_T", "_Device", "_Component", "_Link", "_Instance")


@dataclass(frozen=True, config=_STRICT)
class _Bandwidth:
    choice: Literal["gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"]
    gigabits_per_second: _Amount | None = None
    gigabytes_per_second: _Amount | None = None
    gigatransfers_per_second: _Amount | None = None


@dataclass(frozen=True, config=_STRICT)
class _Latency:
    choice: Literal["ms", "us", "ns"]
    ms: _Amount | None = None
    us: _Amount | None = None
    ns: _Amount | None = None


@dataclass(frozen=True, config=_STRICT)
class _Physical:
    bandwidth: _Bandwidth | None = None
    latency: _Latency | None = None


@dataclass(frozen=True, config=_STRICT)
class _Link:
    name: _Text
    description: str | None = None
    physical: _Physical | None = None

    def attributes(self, rates: Mapping[str, LinkRate]) -> dict[str, Any]:
        """Return the link's bandwidth and latency for a network, from ``rates`` or else the file.

        A missing latency is 0.  Raises :class:`DimsweepError` for a link without bandwidth.
        """
        if (rate_given := rates.get(self.name)) is not None:
            return {**vars(rate_given), "part": self.name}
        bandwidth = self.physical and self.physical.bandwidth
        latency = self.physical and self.physical.latency
        rate = _BYTES.get(bandwidth.choice) if bandwidth else None
        amount = getattr(bandwidth, bandwidth.choice) if bandwidth else None
        if rate is None or not amount:
            problem = "the link has no bandwidth in bytes or bits per second"
            hint = (
                f"set network.links={{{self.name}: {{bandwidth: 50 GB/s, latency: 500 ns}}}}; or "
                "in the file, physical: {bandwidth: {choice: gigabytes_per_second, "
                "gigabytes_per_second: 50}}"
            )
            raise DimsweepError(problem, where=f"links: {self.name}", hint=hint, code="missing")
        time = (getattr(latency, latency.choice) or 0.0) if latency else 0.0
        picoseconds = round(time * _PICOSECONDS[latency.choice]) if latency else 0
        return {"bandwidth": amount * rate, "latency": picoseconds, "part": self.name}


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))  # each choice may have separate keys
class _Component:
    name: _Text
    count: _Count
    choice: Literal["custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch"]


@dataclass(frozen=True, config=_STRICT)
class _End:
    component: _Text
    device: str | None = None
    instance: str | None = None


@dataclass(frozen=True, config=_STRICT)
class _Edge:
    ep1: _End
    ep2: _End
    link: _Text
    scheme: Literal["one2one", "many2many", "ring"]


@dataclass(frozen=True, config=_STRICT)
class _Device:
    name: _Text
    components: Annotated[tuple[_Component, ...], Field(min_length=1)]
    links: tuple[_Link, ...] = ()
    edges: tuple[_Edge, ...] = ()
    description: str | None = None


@dataclass(frozen=True, config=_STRICT)
class _Instance:
    name: _Text
    device: _Text
    count: _Count
    description: str | None = None


@dataclass(frozen=True, config=_STRICT)
class _File:
    devices: tuple[_Device, ...]
    instances: tuple[_Instance, ...]
    links: tuple[_Link, ...] = ()
    edges: tuple[_Edge, ...] = ()
    name: str | None = None
    description: str | None = None


def read_infragraph(path: Path, rates: Mapping[str, LinkRate] | None = None) -> Network:
    """Return the network of an InfraGraph file in YAML or JSON, also under ``infrastructure:``.

    Its XPUs are NPUs, numbered as instances, devices and components follow.  NICs, CPUs and
    memories keep their kind, and all other components are switches.  ``rates`` of links, by their
    names, replace the file's.

    Raises :class:`DimsweepError` naming file and key of any fault, such as a link without bandwidth
    (the format has no lanes, so gigatransfers do not give one), or ``rates`` of an unused link.
    """
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    is_json = not is_yaml and read_text(path, "file").lstrip().startswith("{")
    content, where = (read_json if is_json else read_yaml)(path), str(path)
    if _WRAPPER in content and "devices" not in content:
        content, where = content[_WRAPPER], f"{path}: {_WRAPPER}"
    file = validated(_File, content, where)
    with naming_place(where):
        graph = _Graph(file, rates or {})
        network = graph.network()
        if unused := sorted((rates or {}).keys() - graph.used):
            problem = f"no link of the network is called {unused[0]!r}"
            raise DimsweepError(
                problem,
                where="links",
                hint=suggest_names(unused[0], graph.used),
                code="unknown-name",
            )
    return network


class _Graph:
    def __init__(self, file: _File, rates: Mapping[str, LinkRate]) -> None:
        import networkx as nx  # a slow import

        self._file, self._graph, self._rates = file, nx.DiGraph(), rates
        self.used: set[str] = set()  # names of links
        self._devices = _by_name(file.devices, "device")
        self._instances = _by_name(file.instances, "instance")
        self._sizes: dict[str, int] = {}
        self._names: dict[str, Node] = {}
        self._n_npus, self._n_pairs = 0, 0

    def network(self) -> Network:
        """Return the network of all instances of devices and their links."""
        sizes = [each.count * self._size(each.device) for each in self._file.instances]
        if sum(sizes) > _MOST:
            raise DimsweepError(
                f"the file has {sum(sizes):,} components; the limit is {_MOST:,}", code="too-many"
            )
        for instance in self._file.instances:
            for i in range(instance.count):
                self._place(self._devices[instance.device], f"{instance.name}.{i}")
        links = _by_name(self._file.links, "link")
        for number, edge in enumerate(self._file.edges):
            self._join(edge, links, self._of_instances, f"edges[{number}]")
        if not self._n_npus:
            problem = "no component of an instance is an xpu, so the network has no NPU"
            raise DimsweepError(
                problem, where="instances", hint="set choice: xpu in a component", code="missing"
            )
        return Network(self._graph)

    def _size(self, name: str, above: tuple[str, ...] = ()) -> int:
        """Return the number of components of device ``name``, with components of nested devices."""
        if name in above:
            raise DimsweepError(
                "the device contains itself", where=f"devices: {name}", code="invalid"
            )
        if name not in self._sizes:
            self._sizes[name] = sum(
                each.count
                * (self._size(each.name, (*above, name)) if each.choice == "device" else 1)
                for each in _named(self._devices, name, "device").components
            )
        return self._sizes[name]

    def _place(self, device: _Device, prefix: str) -> None:
        """Add a device's components, with names that start with ``prefix``, and its links."""
        components = _by_name(device.components, "component")
        for component in device.components:
            for i in range(component.count):
                name = f"{prefix}.{component.name}.{i}"
                if component.choice == "device":
                    self._place(self._devices[component.name], name)
                elif component.choice == "xpu":
                    self._names[name] = self._n_npus
                    self._graph.add_node(self._n_npus)
                    self._n_npus += 1
                else:
                    self._names[name] = name
                    self._graph.add_node(name, kind=_KINDS.get(component.choice, Kind.SWITCH))
        links = _by_name(device.links, "link")

        def ends(end: _End) -> list[str]:
            path = f"{end.device}.{end.component}" if end.device else end.component
            return [f"{prefix}.{name}" for name in self._expanded(components, path.split("."))]

        for number, edge in enumerate(device.edges):
            self._join(edge, links, ends, f"devices: {device.name}.edges[{number}]")

    def _of_instances(self, end: _End) -> list[str]:
        if end.instance is None:
            raise DimsweepError(
                "the end names no instance",
                hint="write {instance: host[0:2], component: ...}",
                code="missing",
            )
        name, chosen = _chosen(end.instance, self._instances, "instance")
        components = _by_name(self._devices[self._instances[name].device].components, "component")
        below = list(self._expanded(components, end.component.split(".")))
        return [f"{name}.{i}.{each}" for i in chosen for each in below]

    def _expanded(self, known: Mapping[str, _Component], path: Sequence[str]) -> Iterator[str]:
        """Yield the components that a path in an edge names."""
        name, chosen = _chosen(path[0], known, "component")
        below: list[str] | None = None
        if known[name].choice == "device":
            inside = _by_name(_named(self._devices, name, "device").components, "component")
            if len(path) == 1:
                problem = f"{name!r} is a device; name one of its components"
                hint = f"components: {', '.join(inside)}"
                raise DimsweepError(problem, hint=hint, code="invalid")
            below = list(self._expanded(inside, path[1:]))
        elif len(path) > 1:
            raise DimsweepError(
                f"{name!r} is not a device, so it has no component {path[1]!r}", code="unknown-name"
            )
        for i in chosen:
            yield from [f"{name}.{i}"] if below is None else [f"{name}.{i}.{b}" for b in below]

    def _join(
        self,
        edge: _Edge,
        links: Mapping[str, _Link],
        ends: Callable[[_End], list[str]],
        where: str,
    ) -> None:
        with prefixing_errors(where):
            attributes = _named(links, edge.link, "link").attributes(self._rates)
            self.used.add(edge.link)
            for one, other in self._pairs(edge.scheme, ends(edge.ep1), ends(edge.ep2)):
                self._cable(self._names[one], self._names[other], attributes)

    def _pairs(self, scheme: str, one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
        if scheme == "ring":
            raise DimsweepError(
                "the scheme ring is not defined by InfraGraph",
                hint="use one2one",
                code="unsupported",
            )
        if scheme == "one2one" and len(one) != len(other):
            problem = f"one2one cannot join {len(one)} components to {len(other)}"
            raise DimsweepError(
                problem, hint="give both sides equally many, or use many2many", code="mismatch"
            )
        self._n_pairs += len(one) * (len(other) if scheme == "many2many" else 1)
        if self._n_pairs > _MOST:
            raise DimsweepError(f"the network has more than {_MOST:,} edges", code="too-many")
        pairs = (
            zip(one, other, strict=True) if scheme == "one2one" else itertools.product(one, other)
        )
        return (pair for pair in pairs if pair[0] != pair[1])

    def _cable(self, one: Node, other: Node, attributes: dict[str, Any]) -> None:
        """Add a link in both directions; a repeated link counts once, as in InfraGraph."""
        if self._graph.edges.get((one, other), attributes) != attributes:
            raise DimsweepError(
                f"two links join {one} and {other}",
                hint="give one link with the bandwidth of both",
                code="conflict",
            )
        self._graph.add_edge(one, other, **attributes)
        self._graph.add_edge(other, one, **attributes)


def _by_name(listed: Sequence[_T], noun: str) -> dict[str, _T]:
    found = {each.name: each for each in listed}
    if len(found) < len(listed):
        names = [each.name for each in listed]
        twice = next(name for name in names if names.count(name) > 1)
        raise DimsweepError(f"two {noun}s are called {twice!r}", code="duplicate")
    return found


def _named(known: Mapping[str, _T], name: str, noun: str) -> _T:
    if name not in known:
        raise DimsweepError(
            f"unknown {noun} {name!r}", hint=suggest_names(name, known), code="unknown-name"
        )
    return known[name]


def _chosen(text: str, known: Mapping[str, Any], noun: str) -> tuple[str, range]:
    """Return the name in ``text`` and the chosen indices: ``xpu``, ``xpu[1]``, ``xpu[0:8:2]``.

    A name without brackets chooses all indices.
    """
    found = _COMPONENT.fullmatch(text)
    name = found[1] if found else text
    count = int(_named(known, name, noun).count)
    if found is None or not any(found.groups()[1:]):
        return name, range(count)
    first, slices, end, step = found.groups()[1:]
    start = int(first or 0)
    stop = start + 1 if slices is None else int(end or count)
    if not 0 <= start < stop <= count or step == "0":
        hint = f"choose from 0 to {count}, such as {name}[0:{count}]"
        raise DimsweepError(
            f"{text!r} is out of range: there are {count}", hint=hint, code="out-of-range"
        )
    return name, range(start, stop, int(step or 1))
