"""Parts of a network that are sold as units, and their catalogue, conf/parts.yaml."""

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
        hint = 'give a year, or a year and a month, such as "2024-08"'
        raise DimsweepError(f"{format_yaml(value)} is not a date", hint=hint, code="bad-syntax")
    return text


def _parse_source(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        hint = "name the document: a price list, a quotation, a page"
        raise DimsweepError(f"{format_yaml(value)} is not a source", hint=hint, code="wrong-type")
    return value


Date = Annotated[str, ValueParser(_parse_date)]
Source = Annotated[str, ValueParser(_parse_source)]
EvidenceLevel = Annotated[str, ValueParser(lambda value: parse_name(value, LEVELS), choices=LEVELS)]
Medium = Annotated[str, ValueParser(lambda value: parse_name(value, MEDIA), choices=MEDIA)]
Metres = Annotated[Quantity, ValueParser(quantity_parser(units.LENGTH, zero=True))]
Attachment = Annotated[str, ValueParser(lambda value: parse_name(value, ("", "nic", "switch")))]


class _SourcedAmount(Part):
    """An amount in a price list, with the source of the number. All keys are mandatory."""

    date: Date
    source: Source
    level: EvidenceLevel  # of :data:`engine.network.LEVELS`

    def build(self) -> engine.Amount:
        """Return the amount as the engine's object."""
        return engine.Amount(**dict(self))


class Price(_SourcedAmount):
    """The price of one network part (USD), with its source."""

    value: MoneyOrNone


class Watts(_SourcedAmount):
    """The power that one network part draws (W), with its source."""

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
    """A part that is sold as a unit, such as a switch.

    It has the settings of :class:`engine.network.Part`.
    """

    #: Medium of a cable: copper or fibre; nothing is bought on a board.
    medium: Medium = "board"
    #: Source of these facts.
    source: str = ""
    #: Whether its maker has announced it, and does not sell it yet.
    announced: Flag = False
    #: Price of one.
    price: Price | None = None
    #: Power that one draws.
    watts: Watts | None = None

    def build(self, name: str) -> engine.Part:
        """Return the engine's part with this ``name``.

        Raises :class:`DimsweepError` for a cable without a medium.
        """
        if self.kind is PartKind.CABLE and self.medium == "board":
            problem, hint = "a cable needs a medium", "copper or fibre"
            raise DimsweepError(problem, where="medium", hint=hint, code="missing")
        given = {k: v for k, v in self.settings(engine.Part).items() if v is not None}
        given |= {"medium": engine_medium(self.medium), "name": name}
        given |= {k: v.build() for k, v in (("price", self.price), ("watts", self.watts)) if v}
        return engine.Part(**given)


def engine_medium(name: str) -> Any:
    """Return the engine's name of a cable's medium: "" on a board, which needs no cable."""
    return "" if name == "board" else name


class Link(Part):
    """A link of the catalogue that connects an NPU to a network dimension, such as 400G."""

    name: str
    bandwidth: Bandwidth  # in one direction
    source: str
    machines: tuple[str, ...] = ()  # the only machines that have it; none named: any
    announced: Flag = False

    def suits(self, machines: Collection[str]) -> bool:
        """Return whether one of the ``machines`` can have the link; always true for no machines."""
        return not self.machines or not machines or bool({*self.machines} & {*machines})

    @property
    def title(self) -> str:
        """Name of the link, with a mark if the link is announced but not sold yet."""
        return f"{self.name}, announced" if self.announced else self.name


class LinkKind(Part):
    """All links of one kind, such as Ethernet, from the slowest to the fastest."""

    what: str  # the noun for one link
    parts: tuple[Link, ...]


class Catalogue(Part):
    """The catalogue: links by kind (see ``topology.links``), and parts by name in price lists."""

    RENAMED: ClassVar[Mapping[str, str]] = {"switches": "parts"}

    links: dict[str, LinkKind]
    parts: dict[str, SoldPart] = default(dict)

    @property
    def switches(self) -> list[SoldPart]:
        """Switches among the parts of the catalogue."""
        return [part for part in self.parts.values() if part.kind is PartKind.SWITCH]

    def kind(self, name: str) -> LinkKind:
        """Return the links of the kind ``name``.

        Raises :class:`DimsweepError` for an unknown kind.
        """
        if name not in self.links:
            hint = suggest_names(name, self.links)
            problem = f"conf/parts.yaml has no kind of links {name!r}"
            raise DimsweepError(problem, hint=hint, code="unknown-name")
        return self.links[name]


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of conf/parts.yaml.

    A file in the current folder replaces the installed one.
    """
    file = find_option("", "parts")
    assert file is not None  # dimsweep brings it
    with naming_key(str(file)):
        return Catalogue.from_plain(OmegaConf.to_container(read_options(file).node))
