"""Some devices or links of a network: by name, by kind, by dimension, or by lot."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Kind, Link, Network, node_name, some
from dimsweep.engine.topology.block import Node

_ARROW = re.compile(r"\s*(<?)->\s*")
_ANY = "*"


@dataclass(frozen=True)
class Which:
    """Some devices or links of a network: those of which all of this is true.

    ``named`` is a name as networks print it, such as ``leaf 0`` or ``NPU 3 -> leaf 0``, or both
    ways ``NPU 3 <-> leaf 0``; a ``*`` in it stands for any letters.  ``kind`` is that of devices.
    Links lie ``between`` devices of two kinds, either way round, and belong to ``dim``.  Of these,
    ``draw`` takes so many by lot, by ``seed``; of links so many cables, both ways.  Whoever draws
    more draws the same ones, and others.
    """

    named: str = _ANY
    kind: Kind | None = None
    between: tuple[Kind, Kind] | None = None
    dim: int | None = None
    draw: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draw is not None and self.draw < 1:
            raise DimsweepError(f"{self.draw} are none", where="draw", hint="1 or more")

    def devices(self, kinds: Mapping[Node, Kind], *, npus: bool) -> list[Node]:
        """Those of the NPUs among devices of these ``kinds``, or of all others.

        Raises :class:`DimsweepError`, with the nearest, for a name that there is not, and where
        there is no such device, or fewer than are drawn.
        """
        self._refuse(("between", "dim"), "links")
        what = f"{self.kind or 'NPU'}" if npus else f"{self.kind or 'switch'}"
        names = {
            node_name(node): node
            for node, kind in kinds.items()
            if (kind is Kind.NPU) == npus and self.kind in (None, kind)
        }
        if _ANY not in self.named and self.named not in names:
            raise _unknown(f"no {what} is called {self.named!r}", self.named, names)
        fitting = [name for name in names if _fits(name, self.named)]
        return [names[name] for name in self._drawn(fitting, what)]

    def links(self, network: Network) -> list[Link]:
        """Its links; raises :class:`DimsweepError` likewise."""
        self._refuse(("kind",), "devices")
        found = [link for link in network.links if self._takes(link, network)]
        if self.named != _ANY:
            source, both, target = self._ends(network)
            found = [link for link in found if _joins(link, source, target, both=both)]
        if self.draw is None:
            return self._some(found, "link")
        cables: dict[str, list[Link]] = {}
        for link in found:
            ends = sorted((node_name(link.source), node_name(link.target)))
            cables.setdefault(" - ".join(ends), []).append(link)
        drawn = [cables[name][0] for name in self._drawn(list(cables), "cable")]
        ways = [way for link in drawn for way in _both_ways(link)]
        return [network.links[network.number[way]] for way in ways if way in network.number]

    def _takes(self, link: Link, network: Network) -> bool:
        if self.dim is not None and link.dim != self.dim:
            return False
        ends = (network.devices[link.source].kind, network.devices[link.target].kind)
        return self.between in (None, ends, ends[::-1])

    def _refuse(self, keys: Sequence[str], of: str) -> None:
        for key in keys:
            if getattr(self, key) is not None:
                raise DimsweepError(f"only {of} have it", where=key)

    def _ends(self, network: Network) -> tuple[str, bool, str]:
        """The names of both ends, which there are, and whether both ways are meant."""
        source, both, target = (*_ARROW.split(self.named), "", "")[:3]
        if not target:
            hint = "such as NPU 3 -> leaf 0, or NPU 3 <-> leaf 0 for both ways"
            raise DimsweepError(f"{self.named!r} is no link", where="named", hint=hint)
        known = {node_name(node): node for node in network.graph}
        for name in (source, target):
            if _ANY not in name and name not in known:
                raise _unknown(f"no device is called {name!r}", name, known)
        if _ANY not in self.named and known[target] not in network.graph[known[source]]:
            there = some(map(node_name, network.graph[known[source]]))
            raise DimsweepError(
                f"there is no link {source} -> {target}",
                where="named",
                hint=f"links of {source} lead to {there}",
            )
        return source, bool(both), target

    def _drawn(self, names: list[str], what: str) -> list[str]:
        """All of some names, or those that are drawn: the lot of each depends on no other one."""
        found = self._some(names, what)
        if self.draw is None:
            return found
        if self.draw > len(found):
            there = f"there {'is' if len(found) == 1 else 'are'} {len(found)}"
            what = f"{self.draw} are drawn of each such {what}, and {there}"
            raise DimsweepError(what, where="draw", hint=f"at most {len(found)}")
        return sorted(found, key=self._lot)[: self.draw]

    def _some(self, found: list, what: str) -> list:  # type: ignore[type-arg]
        if not found:
            raise DimsweepError(f"the network has no such {what}")
        return found

    def _lot(self, name: str) -> bytes:
        """The same on every machine, unlike ``hash``."""
        return hashlib.blake2b(f"{self.seed} {name}".encode(), digest_size=8).digest()


def _joins(link: Link, source: str, target: str, *, both: bool) -> bool:
    ends = node_name(link.source), node_name(link.target)
    ways = [ends, ends[::-1]] if both else [ends]
    return any(_fits(one, source) and _fits(other, target) for one, other in ways)


def _both_ways(link: Link) -> Iterable[tuple[Node, Node]]:
    return (link.source, link.target), (link.target, link.source)


def _fits(name: str, pattern: str) -> bool:
    """Only ``*`` is a sign: brackets may be in names."""
    return name == pattern or (_ANY in pattern and fnmatchcase(name, pattern.replace("[", "[[]")))


def _unknown(what: str, name: str, known: Iterable[str]) -> DimsweepError:
    names = list(known)
    near = " or ".join(map(repr, get_close_matches(name, names, cutoff=0.4)))
    hint = f"did you mean {near}?" if near else f"known: {some(names)}" if names else ""
    return DimsweepError(what, where="named", hint=hint)
