"""The catalogue of parts that can be bought: conf/parts.yaml."""

from collections.abc import Collection
from functools import cache

from omegaconf import OmegaConf

from engine import DimsweepError, suggestion
from sweeper.config.options import read_options
from sweeper.config.parts.part import Bandwidth, Flag, Part, Whole, key
from sweeper.config.parts.places import homes


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


class Switch(Part):
    """A switch of ``ports``, each with ``bandwidth`` in one direction."""

    name: str
    ports: Whole
    bandwidth: Bandwidth
    source: str
    announced: Flag = False


class Catalogue(Part):
    """Links by the kinds that ``topology.links`` names, and switches."""

    links: dict[str, Kind]
    switches: tuple[Switch, ...] = ()

    def kind(self, name: str) -> Kind:
        """The links of a kind; raises :class:`DimsweepError` if there is none of the name."""
        if name not in self.links:
            hint = suggestion(name, self.links)
            raise DimsweepError(f"there are no links {name!r} in conf/parts.yaml", hint=hint)
        return self.links[name]


@cache
def catalogue() -> Catalogue:
    """The catalogue: that of the current folder's conf/ if it has one."""
    files = [file for home in homes("conf") if (file := home / "parts.yaml").is_file()]
    with key(str(files[0])):
        return Catalogue.of(OmegaConf.to_container(read_options(files[0]).node))
