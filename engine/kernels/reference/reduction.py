"""Reductions and multicasts by switches, up a tree of them and down again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engine.network.wafer import Tree

if TYPE_CHECKING:
    from engine.kernels.reference.crossing import Crossing, Message
    from engine.kernels.reference.transport import Transport


class Reduction:
    """One reduction, multicast or both on its way: up to the leaves of a tree, from there to its
    tops, and down again; each switch passes on what all that is below it has begun to send."""

    def __init__(
        self,
        transport: "Transport",
        tree: Tree,
        sources: Sequence[int],
        up: "Message",
        targets: Sequence[int],
        down: "Message",
        left: Callable[[int], None],
        arrived: Callable[[int, int], None],
    ) -> None:
        self._transport, self._tree, self._up, self._down = transport, tree, up, down
        self._left, self._arrived = left, arrived
        self._from = {leaf: _among(npus, sources) for leaf, npus in tree.leaves.items()}
        self._to = {leaf: _among(npus, targets) for leaf, npus in tree.leaves.items()}
        self._rising = [leaf for leaf, npus in self._from.items() if npus]
        self._falling = [leaf for leaf, npus in self._to.items() if npus]
        self._begun: dict[str, list[Crossing]] = {}  # what has begun to come to each switch
        self._late = 0

    def start(self) -> None:
        """Send everything that sources send."""
        transport, tree = self._transport, self._tree
        n_trunks = 2 * tree.n_parts * (len(self._rising) + len(self._falling)) if tree.lanes else 0
        transport.n_messages += n_trunks + sum(
            len(npus) for ends in (self._from, self._to) for npus in ends.values()
        )
        self._late = max(self._latency(leaf, self._from[leaf]) for leaf in self._rising)
        for leaf in self._rising:
            for npu in self._from[leaf]:
                risen = partial(self._risen, leaf, len(self._from[leaf]))
                wire = transport.wire(npu, leaf)
                transport.cross(wire, self._up, (), partial(self._left, npu), risen)

    def _latency(self, leaf: str, npus: Sequence[int]) -> int:
        """From the NPUs to the leaf, and from there to the top and down again."""
        wire, lanes = self._transport.wire, self._tree.lanes.get(leaf, ())
        top = self._tree.top
        ways = [wire(leaf, lane).link.latency + wire(lane, top).link.latency for lane in lanes]
        return max(wire(npu, leaf).link.latency for npu in npus) + 2 * max(ways, default=0)

    def _all_come(
        self, place: str, expected: int, crossing: "Crossing"
    ) -> Sequence["Crossing"] | None:
        """All that come to a place, when the last of what is expected has begun to come."""
        begun = self._begun.setdefault(place, [])
        begun.append(crossing)
        return begun if len(begun) == expected else None

    def _risen(self, leaf: str, expected: int, crossing: "Crossing") -> None:
        come = self._all_come(f"{leaf} from below", expected, crossing)
        if come is None:
            return
        if not self._tree.lanes:
            self._fall(leaf, come)
            return
        part = self._up._replace(n_bytes=self._up.n_bytes / self._tree.n_parts)
        for number, lane in enumerate(self._tree.lanes[leaf]):
            topped = partial(self._topped, number)
            self._along((leaf, lane, self._tree.top), part, topped, *come)

    def _topped(self, number: int, crossing: "Crossing") -> None:
        """Part ``number`` from one leaf has begun to come to the top."""
        come = self._all_come(f"part {number}", len(self._rising), crossing)
        if come is None:
            return
        for leaf in self._falling:
            # Shards of their own for the leaf's targets, or one copy of what is for all of them.
            n_bytes = min(self._up.n_bytes, self._down.n_bytes * len(self._to[leaf]))
            part = self._down._replace(n_bytes=n_bytes / self._tree.n_parts)
            way = (self._tree.top, self._tree.lanes[leaf][number], leaf)
            self._along(way, part, partial(self._fallen, leaf), *come)

    def _along(
        self,
        way: tuple[str, ...],
        message: "Message",
        come: Callable[["Crossing"], None],
        *feeds: "Crossing",
    ) -> None:
        """Take a message from node to node."""
        here, there, *further = way
        if further:
            come = partial(self._along, (there, *further), message, come)
        self._transport.cross(self._transport.wire(here, there), message, feeds, _ignore, come)

    def _fallen(self, leaf: str, crossing: "Crossing") -> None:
        come = self._all_come(f"{leaf} from above", self._tree.n_parts, crossing)
        if come is not None:
            self._fall(leaf, come)

    def _fall(self, leaf: str, feeds: Sequence["Crossing"]) -> None:
        for npu in self._to[leaf]:
            wire = self._transport.wire(leaf, npu)
            late = self._late + wire.link.latency
            come = partial(self._come, npu, late)
            self._transport.cross(wire, self._down, feeds, _ignore, come, last=True)

    def _come(self, npu: int, late: int, _: "Crossing") -> None:
        self._arrived(npu, late)


def _among(npus: Sequence[int], some: Sequence[int]) -> list[int]:
    """Those of ``some`` that are among ``npus``, in their order."""
    return [npu for npu in some if npu in npus]


def _ignore() -> None:
    pass
