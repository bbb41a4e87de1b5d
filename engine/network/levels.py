"""Networks described level by level, from the NPUs up: nodes, racks, spines."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from dimsweep.engine.errors import DimsweepError, prefixing_errors, suggest_names
from dimsweep.engine.network.graph import Device, Kind, Medium, Network
from dimsweep.engine.network.wires import MAX_LINKS, Wires, divisors_hint
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import LENGTH, MONEY, POWER, TIME

NPUS = "npu"


@dataclass(frozen=True)
class Level:
    """One level of a network: switches called ``switch``, linked both ways to devices ``below``."""

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
    """Return the network of ``n_npus`` NPUs and their ``levels``, each above an earlier one.

    Raises
    ------
    DimsweepError
        Naming the level, for an unknown or repeated name, for devices that cannot be shared out,
        and for a graph that is not a :class:`Network`.
    """
    wires = Wires()
    wires.graph.add_nodes_from(range(n_npus))
    devices: dict[str, Sequence[Node]] = {NPUS: range(n_npus)}
    for i, level in enumerate(levels):
        with prefixing_errors(f"[{i}]"):
            devices[level.switch] = _add_level(wires, level, devices)
    return wires.network()


def _add_level(wires: Wires, level: Level, devices: dict[str, Sequence[Node]]) -> list[Node]:
    """Add a level's switches and links to ``wires``, and return the switches."""
    below = devices.get(level.below)
    if below is None:
        problem = f"no earlier level is named {level.below!r}"
        hint = suggest_names(level.below, devices)
        raise DimsweepError(problem, where="below", hint=hint, code="unknown-name")
    if level.switch in devices or not level.switch.strip():
        problem = f"{level.switch!r} is the name of an earlier level, or empty"
        hint = f"choose another name than {', '.join(devices)}"
        raise DimsweepError(problem, where="switch", hint=hint, code="duplicate")
    n = len(below)
    share = n if level.share is None else level.share
    if share < 1 or n % share:
        problem = f"{n} of {level.below} cannot be divided into groups of {share}"
        raise DimsweepError(problem, where="share", hint=divisors_hint(n), code="mismatch")
    most = MAX_LINKS // n // 2
    if not 1 <= level.count <= most:
        hint = f"{n} of {level.below} have a link to each"
        problem = f"{level.count}; it must be 1 to {most}"
        raise DimsweepError(problem, where="count", hint=hint, code="out-of-range")
    latency = (level.latency,) * n if isinstance(level.latency, int) else level.latency
    if len(latency) != n:
        problem = f"{len(latency)} latencies for {n} of {level.below}"
        hint = f"give one for all, or a list of {n}"
        raise DimsweepError(problem, where="latency", hint=hint, code="mismatch")
    device_of = {field.name: getattr(level, field.name) for field in fields(Device)}
    cable = {
        name: getattr(level, name) for name in ("bandwidth", "dim", "medium", "length", "lanes")
    }
    switches: list[Node] = []
    for first in range(0, n, share):
        above = [f"{level.switch} {len(switches) + i}" for i in range(level.count)]
        switches += above
        wires.graph.add_nodes_from(above, **device_of)
        for device, each in zip(below[first : first + share], latency[first:], strict=False):
            for switch in above:
                wires.link(device, switch, latency=each, part=level.cable, **cable)
    return switches
