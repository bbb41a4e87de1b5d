"""Reductions and multicasts by switches, up a tree of them and down again, and their turns."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.kernels.reference.crossing import Crossing
from engine.kernels.reference.transport import Message, Switched
from engine.network.wafer import Tree

if TYPE_CHECKING:
    from engine.kernels.reference.links import LinkTransport


class Reduction:
    """One reduction, multicast or both on its way: up to the leaves of a tree, from there to its
    tops, and down again; each switch passes on what all that is below it has begun to send.

    ``ended`` is called when all is down again.
    """

    def __init__(
        self,
        transport: "LinkTransport",
        tree: Tree,
        switched: Switched,
        ended: Callable[[], None],
    ) -> None:
        self._transport, self._tree, self._switched = transport, tree, switched
        self._ended, self._missing = ended, len(switched.targets)
        self._sources = {leaf: self._below(leaf, switched.sources) for leaf in tree.leaves}
        self._targets = {leaf: self._below(leaf, switched.targets) for leaf in tree.leaves}
        self._rising = [leaf for leaf, ranks in self._sources.items() if ranks]
        self._falling = [leaf for leaf, ranks in self._targets.items() if ranks]
        self._begun: dict[str, list[Crossing]] = defaultdict(list)  # to come, by place
        self._latency = max(map(self._latency_up, self._rising))

    def _below(self, leaf: str, ranks: Iterable[int]) -> list[int]:
        """The ranks whose NPUs are below a leaf."""
        return [rank for rank in ranks if self._transport.places[rank] in self._tree.leaves[leaf]]

    def _latency_up(self, leaf: str) -> int:
        """From the sources to the leaf, and from there to the top and down again."""
        wire, places = self._transport.wire, self._transport.places
        up = max(wire(places[rank], leaf).link.latency for rank in self._sources[leaf])
        lanes, top = self._tree.lanes.get(leaf, ()), self._tree.top
        ways = [wire(leaf, lane).link.latency + wire(lane, top).link.latency for lane in lanes]
        return up + 2 * max(ways, default=0)

    def start(self) -> None:
        """Send everything that sources send."""
        transport, tree, switched = self._transport, self._tree, self._switched
        transport.n_messages += len(switched.sources) + len(switched.targets)
        if tree.lanes:
            transport.n_messages += 2 * tree.n_parts * (len(self._rising) + len(self._falling))
        for leaf in self._rising:
            for rank in self._sources[leaf]:
                wire = transport.wire(transport.places[rank], leaf)
                left = partial(switched.left, rank)
                Crossing(wire, switched.up, (), left, partial(self._at_leaf, leaf))

    def _gather(self, place: str, expected: int, crossing: Crossing) -> Sequence[Crossing] | None:
        """All that come to a place, when the last of what is expected has begun to come."""
        begun = self._begun[place]
        begun.append(crossing)
        return begun if len(begun) == expected else None

    def _at_leaf(self, leaf: str, crossing: Crossing) -> None:
        feeds = self._gather(f"{leaf} from below", len(self._sources[leaf]), crossing)
        if feeds is None:
            return
        if not self._tree.lanes:
            self._fall(leaf, feeds)
            return
        part = self._part(self._switched.up.n_bytes)
        for number, lane in enumerate(self._tree.lanes[leaf]):
            way = leaf, lane, self._tree.top
            self._along(way, part, partial(self._at_top, number), *feeds)

    def _at_top(self, number: int, crossing: Crossing) -> None:
        """Part ``number`` from one leaf has begun to come to the top."""
        feeds = self._gather(f"part {number}", len(self._rising), crossing)
        if feeds is None:
            return
        up, down = self._switched.up, self._switched.down
        for leaf in self._falling:
            # Shards of their own for the leaf's targets, or one copy of what is for all of them.
            part = self._part(min(up.n_bytes, down.n_bytes * len(self._targets[leaf])))
            way = self._tree.top, self._tree.lanes[leaf][number], leaf
            self._along(way, part, partial(self._back_at_leaf, leaf), *feeds)

    def _part(self, n_bytes: float) -> Message:
        """What goes by one lane of a leaf."""
        return self._switched.up._replace(n_bytes=n_bytes / self._tree.n_parts)

    def _along(
        self,
        way: Sequence[str],
        message: Message,
        passed: Callable[[Crossing], None],
        *feeds: Crossing,
    ) -> None:
        """Take a message from node to node."""
        here, there, *further = way
        if further:
            passed = partial(self._along, (there, *further), message, passed)
        Crossing(self._transport.wire(here, there), message, feeds, _ignore, passed)

    def _back_at_leaf(self, leaf: str, crossing: Crossing) -> None:
        feeds = self._gather(f"{leaf} from above", self._tree.n_parts, crossing)
        if feeds is not None:
            self._fall(leaf, feeds)

    def _fall(self, leaf: str, feeds: Sequence[Crossing]) -> None:
        """From a leaf to its targets."""
        for rank in self._targets[leaf]:
            wire = self._transport.wire(leaf, self._transport.places[rank])
            arrive = partial(self._arrive, rank, self._latency + wire.link.latency)
            Crossing(wire, self._switched.down, feeds, _ignore, arrive, last=True)

    def _arrive(self, rank: int, latency: int, _: Crossing) -> None:
        self._missing -= 1
        if not self._missing:
            self._ended()
        self._switched.arrived(rank, latency)


def _ignore() -> None:
    pass


class _Asked(NamedTuple):
    round: int
    line: frozenset[int]
    start: Callable[[], None]


class Turns:
    """Turns of lines that cannot pass a wafer's switches at once: lines of one round pass together,
    rounds one after another.

    Whoever has asked longest chooses the next round.  What its lines have asked for passes, and
    what else they ask for meanwhile, but while others wait nothing of a line that has had its turn:
    so nobody waits for ever.
    """

    def __init__(self) -> None:
        self._round, self._under_way = -1, 0
        self._passed: set[frozenset[int]] = set()  # in this turn
        self._waiting: list[_Asked] = []

    def ask(self, round_: int, line: frozenset[int], start: Callable[[], None]) -> None:
        """Call ``start`` when it is the turn of the line; :meth:`leave` must follow."""
        self._waiting.append(_Asked(round_, line, start))
        self._let_in()

    def leave(self) -> None:
        """What was started has come to its end."""
        self._under_way -= 1
        self._let_in()

    def _let_in(self) -> None:
        begins = not self._under_way
        if self._waiting and begins:
            self._round = self._waiting[0].round
            self._passed.clear()
        waiting, self._waiting = self._waiting, []
        others = any(asked.round != self._round for asked in waiting)
        for asked in waiting:
            again = asked.line in self._passed and others and not begins
            if asked.round == self._round and not again:
                self._under_way += 1
                self._passed.add(asked.line)
                asked.start()
            else:
                self._waiting.append(asked)
