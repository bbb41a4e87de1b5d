"""Parts for a bill of materials, sold as whole units, and dated lists of prices and powers."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Medium
from dimsweep.engine.settings import Bounds, check_settings
from dimsweep.engine.units import BANDWIDTH, LENGTH, format_quantity

_NOISE = 1e-9
_PORTS = 2**16


class PartKind(StrEnum):
    """The kind of a part: a device of a network, or a cable or transceiver between devices."""

    NPU = "npu"
    NIC = "nic"
    SWITCH = "switch"
    OCS = "ocs"
    MEMORY = "memory"
    HOST = "host"
    TRANSCEIVER = "transceiver"
    CABLE = "cable"

    @property
    def plural(self) -> str:
        """Plural of the kind, as in ``switches``."""
        return {"npu": "NPUs", "nic": "NICs", "switch": "switches", "memory": "memories"}.get(
            self.value, f"{self.value}s"
        )


# How well an amount is evidenced, the best first.
LEVELS = {
    "V": "read in its source",
    "N": "as others noted it",
    "S": "by secondary press or a vendor's page",
    "A": "assumed by its author",
}


@dataclass(frozen=True)
class Amount:
    """The price (USD) or power (W) of one part, with its source."""

    value: float
    date: str = ""  # such as 2025 or 2025-03
    source: str = ""
    level: str = ""  # one of LEVELS


@dataclass(frozen=True)
class Part:
    """A product of a price list, sold in whole units: a switch, NIC, cable, transceiver, NPU ..."""

    name: str
    #: Device or joint.
    kind: PartKind
    #: Name in reports; by default the name in the list.
    title: str = ""
    #: Number of ports; NPUs of a server.
    ports: Annotated[int, Bounds(at_least=1, at_most=_PORTS)] = 1
    #: Bandwidth of a port in one direction; any unless given.
    bandwidth: Annotated[float, BANDWIDTH] = 0.0
    #: Ports into which one port can be split.
    splits: Annotated[int, Bounds(at_least=1, at_most=_PORTS)] = 1
    #: Medium of a cable; nothing is bought on a board.
    medium: Medium = ""
    #: Length of a cable.
    length: Annotated[float, LENGTH] = math.inf
    #: The only device that a transceiver suits: nic or switch; empty: both.
    at: str = ""
    price: Amount | None = None
    watts: Amount | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def label(self) -> str:
        """Name of the part in reports: its title, or else its name in the price list."""
        return self.title or self.name

    def split(self, bandwidth: float) -> int:
        """Return how many ports of ``bandwidth`` bytes/s one port splits into; 0: too slow."""
        if not self.bandwidth:
            return 1
        return min(self.splits, math.floor(self.bandwidth / bandwidth * (1 + _NOISE)))

    def ports_for(self, bandwidth: float) -> tuple[float, int]:
        """Return (bytes/s, number) of ports, split so that each has ``bandwidth`` bytes/s or more.

        Ports that are too slow for ``bandwidth`` are not split.
        """
        n = max(1, self.split(bandwidth))
        return self.bandwidth / n, self.ports * n


@dataclass(frozen=True)
class Cabling:
    """The cables of a tier: their medium (empty: traces on a board) and their length (m)."""

    medium: Medium
    length: float = 0.0


@dataclass(frozen=True)
class Need:
    """A device or cable that a network requires, described by the properties a part must have.

    ``ports`` are (bytes/s, number of used ports), the fastest first.  ``radix`` is the minimum
    number of ports, free ones included (0: any number).  ``part`` is the part that the network
    names, and ``price`` and ``watts`` are the values that the network states.
    """

    kind: PartKind
    ports: tuple[tuple[float, int], ...] = ()
    radix: int = 0
    medium: Medium = ""
    length: float = 0.0
    at: str = ""
    part: str = ""
    price: float | None = None
    watts: float | None = None

    @property
    def n_ports(self) -> int:
        """Number of used ports of all bandwidths together."""
        return sum(n for _, n in self.ports)

    @property
    def description(self) -> str:
        """Ports, or a cable's properties, as text: ``64 x 400 Gb/s``, ``fibre, 30 m, 400 Gb/s``."""
        if self.kind is PartKind.CABLE:
            return f"{self.medium}, {self.length:g} m, {format_bit_rate(self.ports[0][0])}"
        return ", ".join(f"{n} x {format_bit_rate(bandwidth)}" for bandwidth, n in self.ports)


def format_bit_rate(bandwidth: float) -> str:
    """Format a bandwidth (bytes/s) as a port's bit rate: ``400 Gb/s``."""
    bits = bandwidth * 8e-9
    return f"{bits:g} Gb/s" if bits < 1e4 else format_quantity(bandwidth, BANDWIDTH)


@dataclass(frozen=True)
class PriceList:
    """Parts with prices and unique names, and the cabling of each tier.

    ``pue`` is the power of a data centre over the power of its machines.  Raises
    :class:`DimsweepError` for a repeated part.
    """

    parts: tuple[Part, ...]
    cabling: tuple[tuple[str, Cabling], ...] = ()
    pue: float = 1.0

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            problem = f"{twice} is given twice"
            hint = "keep one of them"
            raise DimsweepError(problem, where="parts", hint=hint, code="duplicate")

    def cables(self, tier: str) -> Cabling | None:
        """Return the cabling of a tier; None if the list has none."""
        return dict(self.cabling).get(tier)

    def parts_of_kind(self, kind: PartKind) -> list[Part]:
        """Return the parts of a kind."""
        return [part for part in self.parts if part.kind is kind]

    def find(self, need: Need) -> tuple[Part, int] | None:
        """Return the cheapest part that meets ``need``, and how many of it are needed; or None.

        Only parts with a price count.  If the network names a part, only that part counts.
        """
        fitting = [
            (part.price.value * n, part.name, part, n)
            for part in self.parts_of_kind(need.kind)
            if part.price is not None and (n := _pieces(part, need))
        ]
        if not fitting:
            return None
        *_, part, n = min(fitting, key=lambda each: each[:2])
        return part, n


def _pieces(part: Part, need: Need) -> int:
    """Return how many units of ``part`` meet ``need``; 0: it does not fit."""
    if need.part and need.part != part.name:
        return 0
    if need.kind is PartKind.CABLE:
        ((bandwidth, _),) = need.ports
        enough = part.medium == need.medium and part.length >= need.length * (1 - _NOISE)
        return int(enough and part.split(bandwidth) > 0)
    if need.kind not in (PartKind.NIC, PartKind.TRANSCEIVER, PartKind.SWITCH, PartKind.OCS):
        return 1
    if part.at not in ("", need.at):
        return 0
    filled = 0
    for bandwidth, n in need.ports:
        each = part.split(bandwidth)
        if not each:
            return 0
        filled += -(-n // each)
    if need.kind in (PartKind.SWITCH, PartKind.OCS):
        return int(filled <= part.ports and need.radix <= part.ports * part.splits)
    return -(-filled // part.ports)
