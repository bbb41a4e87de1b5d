"""Reductions and multicasts by switches, up a tree of them and down again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engine.network.wafer import Tree

if TYPE_CHECKING:
    from engine.kernels.message.transport import Message, Transport


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
        self._tails: dict[str, list[int]] = {}  # of what has begun to come to each switch
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
                wire, now = transport.wire(npu, leaf), transport.clock.ps
                transport.cross(wire, self._up, now, partial(self._left, npu), risen)

    def _latency(self, leaf: str, npus: Sequence[int]) -> int:
        """From the NPUs to the leaf, and from there to the top and down again."""
        wire, lanes = self._transport.wire, self._tree.lanes.get(leaf, ())
        top = self._tree.top
        ways = [wire(leaf, lane).link.latency + wire(lane, top).link.latency for lane in lanes]
        return max(wire(npu, leaf).link.latency for npu in npus) + 2 * max(ways, default=0)

    def _all_come(self, place: str, expected: int, tail: int) -> int | None:
        """The latest tail, when the last of what is expected has begun to come."""
        tails = self._tails.setdefault(place, [])
        tails.append(tail)
        return max(tails) if len(tails) == expected else None

    def _risen(self, leaf: str, expected: int, tail: int) -> None:
        latest = self._all_come(f"{leaf} from below", expected, tail)
        if latest is None:
            return
        if not self._tree.lanes:
            self._fall(leaf, latest)
            return
        part = self._up._replace(n_bytes=self._up.n_bytes / self._tree.n_parts)
        for number, lane in enumerate(self._tree.lanes[leaf]):
            come = partial(self._topped, number)
            self._along((leaf, lane, self._tree.top), part, come, latest)

    def _topped(self, number: int, tail: int) -> None:
        """Part ``number`` from one leaf has begun to come to the top."""
        latest = self._all_come(f"part {number}", len(self._rising), tail)
        if latest is None:
            return
        for leaf in self._falling:
            # Shards of their own for the leaf's targets, or one copy of what is for all of them.
            n_bytes = min(self._up.n_bytes, self._down.n_bytes * len(self._to[leaf]))
            part = self._down._replace(n_bytes=n_bytes / self._tree.n_parts)
            way = (self._tree.top, self._tree.lanes[leaf][number], leaf)
            self._along(way, part, partial(self._fallen, leaf), latest)

    def _along(
        self, way: tuple[str, ...], message: "Message", come: Callable[[int], None], tail: int
    ) -> None:
        """Take a message whose last byte comes at ``tail`` from node to node."""
        here, there, *further = way
        if further:
            come = partial(self._along, (there, *further), message, come)
        self._transport.cross(self._transport.wire(here, there), message, tail, _ignore, come)

    def _fallen(self, leaf: str, tail: int) -> None:
        latest = self._all_come(f"{leaf} from above", self._tree.n_parts, tail)
        if latest is not None:
            self._fall(leaf, latest)

    def _fall(self, leaf: str, tail: int) -> None:
        for npu in self._to[leaf]:
            wire = self._transport.wire(leaf, npu)
            late = self._late + wire.link.latency
            come = partial(self._come, npu, late)
            self._transport.cross(wire, self._down, tail, _ignore, come, last=True)

    def _come(self, npu: int, late: int, tail: int) -> None:
        self._arrived(npu, late)


def _among(npus: Sequence[int], some: Sequence[int]) -> list[int]:
    """Those of ``some`` that are among ``npus``, in their order."""
    return [npu for npu in some if npu in npus]


def _ignore() -> None:
    pass
