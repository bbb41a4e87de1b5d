"""A network that is told level by level, from the NPUs up: nodes, racks, spines."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from dimsweep.engine.errors import DimsweepError, suggestion
from dimsweep.engine.network.fabric import MAX_LINKS
from dimsweep.engine.network.graph import Device, Kind, Medium, Network
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import LENGTH, MONEY, POWER, TIME

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

NPUS = "npu"


@dataclass(frozen=True)
class Level:
    """Links in both directions from each device ``below`` up to switches called ``switch``.

    ``below`` are the NPUs, or the switches of a level that was told before; each ``share`` of them,
    one after the other, have ``count`` switches of their own (``None``: all of them together).  A
    network card is a switch that one NPU has to itself.  ``bandwidth`` is bytes per second,
    ``latency`` picoseconds, one for each device below where cables differ.  ``dim`` is the
    dimension that the links are counted in (-1: none).

    ``kind`` to ``planes`` are of each switch as a :class:`Device` has them, ``medium`` to ``cable``
    (its ``part``) of each link as a :class:`Link` has them.
    """

    switch: str
    bandwidth: float
    latency: int | tuple[int, ...]
    below: str = NPUS
    share: int | None = None
    count: int = 1
    dim: int = -1
    kind: Kind = Kind.SWITCH
    ports: int | None = None
    part: str = ""
    price: Annotated[float, MONEY] | None = None
    watts: Annotated[float, POWER] | None = None
    fails: float | None = None
    repair: Annotated[float, TIME] | None = None
    planes: int = 1
    medium: Medium = ""
    length: Annotated[float, LENGTH] = 0.0
    lanes: int = 1
    cable: str = ""


def build_levels(n_npus: int, levels: Sequence[Level]) -> Network:
    """The network of ``n_npus`` NPUs and their ``levels``.

    Raises :class:`DimsweepError` naming the level for a name that is none or that there is
    already, for devices that cannot be shared out, and for what is no :class:`Network`.
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_npus))
    devices: dict[str, Sequence[Node]] = {NPUS: range(n_npus)}
    for i, level in enumerate(levels):
        try:
            devices[level.switch] = _join(graph, level, devices)
        except DimsweepError as error:
            raise error.at(f"[{i}]") from None
    return Network(graph)


def _join(graph: "nx.DiGraph", level: Level, devices: dict[str, Sequence[Node]]) -> list[Node]:
    """Adds a level's links; returns its switches."""
    below = devices.get(level.below)
    if below is None:
        hint = suggestion(level.below, devices)
        raise DimsweepError(f"there is no level {level.below!r} yet", where="below", hint=hint)
    if level.switch in devices or not level.switch.strip():
        hint = f"a name of its own; there are {', '.join(devices)}"
        raise DimsweepError(f"{level.switch!r} cannot name it", where="switch", hint=hint)
    share = _share(level, len(below))
    latency = _latencies(level, len(below))
    device_of = {field.name: getattr(level, field.name) for field in fields(Device)}
    cable: dict[str, object] = {"medium": level.medium, "length": level.length}
    cable |= {"lanes": level.lanes, "part": level.cable}
    switches: list[Node] = []
    for first in range(0, len(below), share):
        own = [f"{level.switch} {len(switches) + i}" for i in range(level.count)]
        switches += own
        graph.add_nodes_from(own, **device_of)
        for device, each in zip(below[first : first + share], latency[first:], strict=False):
            for switch in own:
                told = {"bandwidth": level.bandwidth, "latency": each, "dim": level.dim, **cable}
                graph.add_edge(device, switch, **told)
                graph.add_edge(switch, device, **told)
    return switches


def _share(level: Level, n: int) -> int:
    share = n if level.share is None else level.share
    if share < 1 or n % share:
        what = f"{n} of {level.below} cannot be shared out by {share}"
        hint = f"such as {', '.join(str(i) for i in range(1, n + 1) if n % i == 0)}"
        raise DimsweepError(what, where="share", hint=hint)
    if not 1 <= level.count <= MAX_LINKS // n // 2:
        what = f"{level.count} is not in 1..{MAX_LINKS // n // 2}"
        raise DimsweepError(what, where="count", hint=f"{n} of {level.below} have a link to each")
    return share


def _latencies(level: Level, n: int) -> tuple[int, ...]:
    if isinstance(level.latency, int):
        return (level.latency,) * n
    if len(level.latency) != n:
        what = f"{len(level.latency)} latencies for {n} of {level.below}"
        raise DimsweepError(what, where="latency", hint=f"one for all, or a list of {n}")
    return level.latency
