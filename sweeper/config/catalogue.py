"""Parts that are bought whole, and the catalogue of them: conf/parts.yaml."""

import math
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar

from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError, in_yaml, suggestion, units
from dimsweep.engine import network as engine
from dimsweep.engine.network import LEVELS, PartKind
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.part import (
    Bandwidth,
    Flag,
    MoneyOrNone,
    Parsed,
    Part,
    Power,
    Quantity,
    Whole,
    default,
    key,
    member,
    one_of,
    quantity,
)
from dimsweep.sweeper.places import find_option

MEDIA = ("board", "copper", "fibre")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2]))?")
_PORTS = 2**16


def _date(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _DATE.fullmatch(text):
        hint = 'a year, or a year and a month, such as "2024-08"'
        raise DimsweepError(f"{in_yaml(value)} is no date", hint=hint)
    return text


def _source(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        hint = "who says so: a list, a quotation, a page"
        raise DimsweepError(f"{in_yaml(value)} is no source", hint=hint)
    return value


Date = Annotated[str, Parsed(_date)]
Source = Annotated[str, Parsed(_source)]
EvidenceLevel = Annotated[str, Parsed(lambda value: one_of(value, LEVELS), choices=LEVELS)]
Medium = Annotated[str, Parsed(lambda value: one_of(value, MEDIA), choices=MEDIA)]
Metres = Annotated[Quantity, Parsed(quantity(units.LENGTH, zero=True))]
At = Annotated[str, Parsed(lambda value: one_of(value, ("", "nic", "switch")))]


class _Dated(Part):
    """Who says it, when, and how well that is evidenced: a level of :data:`engine.network.LEVELS`.
    All three must be told."""

    date: Date
    source: Source
    level: EvidenceLevel

    def build(self) -> engine.Amount:
        """The engine's amount."""
        return engine.Amount(**dict(self))


class Price(_Dated):
    """USD of one part."""

    value: MoneyOrNone


class Watts(_Dated):
    """What one part draws."""

    value: Power


class Sold(Part):
    """A part (see engine.network.Part): ``ports`` of ``bandwidth`` each, and into how many each
    ``splits``; of a server (``kind: npu``) its NPUs.  ``medium`` and ``length`` are a cable's, and
    ``at`` says of a transceiver that it suits a nic or a switch only.  ``source`` is of these, and
    ``announced``: it is told of by its maker."""

    kind: Annotated[PartKind, member(PartKind)]
    title: str = ""
    ports: Whole = 1
    bandwidth: Bandwidth | None = None
    splits: Whole = 1
    medium: Medium = "board"
    length: Metres | None = None
    at: At = ""
    source: str = ""
    announced: Flag = False
    price: Price | None = None
    watts: Watts | None = None

    def build(self, name: str) -> engine.Part:
        """The engine's part; raises :class:`DimsweepError` for numbers that no part has."""
        for at in ("ports", "splits"):
            if not 1 <= getattr(self, at) <= _PORTS:
                raise DimsweepError(f"{getattr(self, at)} is not in 1..{_PORTS}", where=at)
        if self.kind is PartKind.CABLE and self.medium == "board":
            raise DimsweepError("a cable has a medium", where="medium", hint="copper or fibre")
        return engine.Part(
            name=name,
            kind=self.kind,
            title=self.title,
            ports=self.ports,
            bandwidth=self.bandwidth or 0.0,
            splits=self.splits,
            medium=medium(self.medium),
            length=math.inf if self.length is None else self.length,
            at=self.at,
            price=None if self.price is None else self.price.build(),
            watts=None if self.watts is None else self.watts.build(),
        )


def medium(name: str) -> Any:
    """A medium as the engine has it: nothing is bought on a board."""
    return "" if name == "board" else name


class Link(Part):
    """What joins an NPU to a dimension, with ``bandwidth`` in one direction; ``source`` says so.
    Where ``machines`` are named, no other ones have it."""

    name: str
    bandwidth: Bandwidth
    source: str
    machines: tuple[str, ...] = ()
    announced: Flag = False

    def suits(self, machines: Collection[str]) -> bool:
        """Whether one of ``machines`` can have it; none named: any."""
        return not self.machines or not machines or bool({*self.machines} & {*machines})

    @property
    def title(self) -> str:
        """The name, and whether it can be bought yet."""
        return f"{self.name}, announced" if self.announced else self.name


class Kind(Part):
    """The links of a kind, from the slowest to the fastest; ``what`` is what one is called."""

    what: str
    parts: tuple[Link, ...]


class Catalogue(Part):
    """Links by the kinds that ``topology.links`` names, and what is bought whole, by its name in
    price lists."""

    RENAMED: ClassVar[Mapping[str, str]] = {"switches": "parts"}

    links: dict[str, Kind]
    parts: dict[str, Sold] = default(dict)

    @property
    def switches(self) -> list[Sold]:
        """The switches among the parts."""
        return [part for part in self.parts.values() if part.kind is PartKind.SWITCH]

    def kind(self, name: str) -> Kind:
        """The links of a kind; raises :class:`DimsweepError` if there is none of the name."""
        if name not in self.links:
            hint = suggestion(name, self.links)
            raise DimsweepError(f"there are no links {name!r} in conf/parts.yaml", hint=hint)
        return self.links[name]


@cache
def catalogue() -> Catalogue:
    """The catalogue: that of the current folder's conf/ if it has one."""
    file = find_option("", "parts")
    assert file is not None  # dimsweep brings it
    with key(str(file)):
        return Catalogue.of(OmegaConf.to_container(read_options(file).node))
