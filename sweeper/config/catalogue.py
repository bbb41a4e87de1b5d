"""Parts that are bought whole, and the catalogue of them: conf/parts.yaml."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar

from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError, format_yaml, suggest_names, units
from dimsweep.engine import network as engine
from dimsweep.engine.network import LEVELS, PartKind
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.part import (
    Bandwidth,
    Flag,
    MoneyOrNone,
    Part,
    Power,
    Quantity,
    ValueParser,
    default,
    mirror,
    naming_key,
    parse_name,
    quantity_parser,
)
from dimsweep.sweeper.places import find_option

MEDIA = ("board", "copper", "fibre")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2]))?")


def _parse_date(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _DATE.fullmatch(text):
        hint = 'a year, or a year and a month, such as "2024-08"'
        raise DimsweepError(f"{format_yaml(value)} is no date", hint=hint)
    return text


def _parse_source(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        hint = "who says so: a list, a quotation, a page"
        raise DimsweepError(f"{format_yaml(value)} is no source", hint=hint)
    return value


Date = Annotated[str, ValueParser(_parse_date)]
Source = Annotated[str, ValueParser(_parse_source)]
EvidenceLevel = Annotated[str, ValueParser(lambda value: parse_name(value, LEVELS), choices=LEVELS)]
Medium = Annotated[str, ValueParser(lambda value: parse_name(value, MEDIA), choices=MEDIA)]
Metres = Annotated[Quantity, ValueParser(quantity_parser(units.LENGTH, zero=True))]
Attachment = Annotated[str, ValueParser(lambda value: parse_name(value, ("", "nic", "switch")))]


class _SourcedAmount(Part):
    """Who says it, when, and how well that is evidenced: a level of :data:`engine.network.LEVELS`.
    All three must be told."""

    date: Date
    source: Source
    level: EvidenceLevel

    def build(self) -> engine.Amount:
        """The engine's amount."""
        return engine.Amount(**dict(self))


class Price(_SourcedAmount):
    """USD of one part."""

    value: MoneyOrNone


class Watts(_SourcedAmount):
    """What one part draws."""

    value: Power


class SoldPart(
    mirror(  # type: ignore[misc]
        engine.Part,
        without=("name", "price", "watts"),
        unset=("bandwidth", "length"),
        bandwidth=Bandwidth,
        length=Metres,
        at=Attachment,
    )
):
    """A part that is bought whole: the settings of :class:`engine.network.Part`."""

    #: Medium of a cable: copper or fibre; nothing is bought on a board.
    medium: Medium = "board"
    #: Who says this.
    source: str = ""
    #: Whether its maker has announced it, and does not sell it yet.
    announced: Flag = False
    #: What one costs.
    price: Price | None = None
    #: What one draws.
    watts: Watts | None = None

    def build(self, name: str) -> engine.Part:
        """Return the engine's part; raises :class:`DimsweepError` for a cable without a medium."""
        if self.kind is PartKind.CABLE and self.medium == "board":
            raise DimsweepError("a cable has a medium", where="medium", hint="copper or fibre")
        given = {k: v for k, v in self.settings(engine.Part).items() if v is not None}
        given |= {"medium": engine_medium(self.medium), "name": name}
        given |= {k: v.build() for k, v in (("price", self.price), ("watts", self.watts)) if v}
        return engine.Part(**given)


def engine_medium(name: str) -> Any:
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


class LinkKind(Part):
    """The links of a kind, from the slowest to the fastest; ``what`` is what one is called."""

    what: str
    parts: tuple[Link, ...]


class Catalogue(Part):
    """Links by the kinds that ``topology.links`` names, and what is bought whole, by its name in
    price lists."""

    RENAMED: ClassVar[Mapping[str, str]] = {"switches": "parts"}

    links: dict[str, LinkKind]
    parts: dict[str, SoldPart] = default(dict)

    @property
    def switches(self) -> list[SoldPart]:
        """The switches among the parts."""
        return [part for part in self.parts.values() if part.kind is PartKind.SWITCH]

    def kind(self, name: str) -> LinkKind:
        """The links of a kind; raises :class:`DimsweepError` if there is none of the name."""
        if name not in self.links:
            hint = suggest_names(name, self.links)
            raise DimsweepError(f"there are no links {name!r} in conf/parts.yaml", hint=hint)
        return self.links[name]


@cache
def load_catalogue() -> Catalogue:
    """The catalogue: that of the current folder's conf/ if it has one."""
    file = find_option("", "parts")
    assert file is not None  # dimsweep brings it
    with naming_key(str(file)):
        return Catalogue.from_plain(OmegaConf.to_container(read_options(file).node))
