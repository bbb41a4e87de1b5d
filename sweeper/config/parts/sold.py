"""Parts that are bought whole: what conf/parts.yaml and the price lists say of one."""

import math
import re
from typing import Annotated, Any

from dimsweep.engine import DimsweepError, in_yaml, units
from dimsweep.engine import network as engine
from dimsweep.engine.network import LEVELS, PartKind
from dimsweep.sweeper.config.parts.part import (
    Bandwidth,
    Flag,
    MoneyOrNone,
    Parsed,
    Part,
    Power,
    Quantity,
    Whole,
    member,
    one_of,
    quantity,
)

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
