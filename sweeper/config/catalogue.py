"""The catalogue of parts that can be bought: conf/parts.yaml."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import ClassVar

from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError, suggestion
from dimsweep.engine.network import PartKind
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.parts.part import Bandwidth, Flag, Part, default, key
from dimsweep.sweeper.config.parts.places import find_option
from dimsweep.sweeper.config.parts.sold import Sold


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
