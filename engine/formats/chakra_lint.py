"""What is wrong with the traces of a job: in each, and between the ranks.

Between ranks: messages that are sent and not received, or the other way round; collectives whose
members disagree; groups and ranks that are named but not there.  Members issue their collectives in
ASTRA-sim's order, the lowest id of those that are ready first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from engine.collector import no_collector
from engine.errors import DimsweepError
from engine.formats.astra_sim.nodes import Node, node_of
from engine.formats.chakra import NodeType, TraceNode
from engine.formats.chakra.files import Scanned
from engine.formats.chakra.lint import Finding, lint_trace
from engine.formats.chakra.order import issue_order
from engine.formats.chakra_stats import collective_name

_NEEDED = {
    NodeType.COMM_COLL: ("comm_type", "comm_size"),
    NodeType.COMM_SEND: ("comm_size", "comm_dst"),
    NodeType.COMM_RECV: ("comm_size", "comm_src"),
}


_Place = tuple[int, int]  # rank, and place in its trace
_Fault = tuple[str, str]  # what is wrong, and the fix


class _Message(NamedTuple):
    """A send or a receive."""

    tag: int
    size: int
    place: _Place


class _Meeting(NamedTuple):
    """A collective that a rank takes part in."""

    collective: int
    size: int
    place: _Place

    @property
    def content(self) -> tuple[int, int]:
        return self.collective, self.size

    def __str__(self) -> str:
        return f"{collective_name(self.collective)} of {self.size:,} B"


@no_collector()
def lint_job(
    scanned: Sequence[Scanned], groups: Mapping[str, Sequence[int]], *, alone: bool = False
) -> list[Finding]:
    """All that is wrong with the traces of ranks 0, 1, ...

    ``groups`` are the ranks of each communicator group.  ``alone``: there is one trace, for one
    rank or for all, and no other to compare it with.
    """
    job = _Job(scanned, groups, None if alone else len(scanned))
    graphs = chain.from_iterable(map(lint_trace, scanned))
    nodes = chain.from_iterable(map(job.add, range(len(scanned))))
    between = (job.unmatched_messages, job.disagreements, job.crossed_collectives)
    ranks = chain.from_iterable(find() for find in between) if not alone else ()
    return [*graphs, *nodes, *ranks]


class _Job:
    """What ranks say of one another."""

    def __init__(
        self, scanned: Sequence[Scanned], groups: Mapping[str, Sequence[int]], n: int | None
    ) -> None:
        self._scanned, self._groups, self._n = scanned, groups, n
        self._sends: dict[tuple[int, int], list[_Message]] = {}  # by source and target
        self._receives: dict[tuple[int, int], list[_Message]] = {}
        self._collectives: dict[str, dict[int, list[_Meeting]]] = {}  # by group and rank
        self._order: dict[int, list[tuple[str, int]]] = {}  # by rank: group, and the how-manieth
        self._read: dict[int, Node | _Fault | None] = {}  # ranks have most nodes in common
        self._missing: set[str] = set()

    def _find(self, place: _Place, what: str, fix: str) -> Finding:
        return Finding(self._where(place), what, fix)

    def _where(self, place: _Place) -> str:
        rank, i = place
        node = self._scanned[rank].trace.nodes[i]
        return self._scanned[rank].places.of(i + 1, node.id, node.name)

    def add(self, rank: int) -> Iterator[Finding]:
        """Note what a rank does; finds nodes that do not say what they should."""
        nodes, read = self._scanned[rank].trace.nodes, self._read
        for i in issue_order(nodes):
            raw = nodes[i]
            key = id(raw)
            if key not in read:
                read[key] = _read(raw)
            node = read[key]
            if node is None:
                continue
            if not isinstance(node, Node):
                fault: _Fault | None = node
            elif node.type is NodeType.COMM_COLL:
                fault = self._collective((rank, i), node)
            else:
                fault = self._message((rank, i), node)
            if fault:
                yield self._find((rank, i), *fault)

    def _message(self, place: _Place, node: Node) -> _Fault | None:
        """Note it; or what is wrong with it."""
        rank, n = place[0], self._n
        if n is None:
            return None
        sends = node.type is NodeType.COMM_SEND
        peer = node.target if sends else node.source
        if peer >= n or peer == rank:
            what = f"its peer is rank {peer}" + (", itself" if peer == rank else "")
            return what, f"there are traces of ranks 0 to {n - 1}"
        ends = (rank, peer) if sends else (peer, rank)
        table = self._sends if sends else self._receives
        table.setdefault(ends, []).append(_Message(node.tag, node.size, place))
        return None

    def _collective(self, place: _Place, node: Node) -> _Fault | None:
        name = "" if node.group == "0" else node.group
        if not name and not all(node.involved):
            return None  # which ranks these are, the topology decides
        if name and name not in self._groups:
            if name in self._missing:
                return None  # said of its first node
            self._missing.add(name)
            known = ", ".join(list(self._groups)[:8]) or "none; give a file of them"
            return f"there is no communicator group {name!r}", f"groups: {known}"
        rank = place[0]
        if self._n is None:
            return None
        if name and rank not in self._groups[name]:
            return f"rank {rank} is no member of its group {name!r}", "add it, or name another"
        meetings = self._collectives.setdefault(name, {}).setdefault(rank, [])
        self._order.setdefault(rank, []).append((name, len(meetings)))
        meetings.append(_Meeting(node.collective, node.size, place))
        return None

    def unmatched_messages(self) -> Iterator[Finding]:
        """Sends and receives between each two ranks, by tag and size."""
        for ends in sorted({*self._sends, *self._receives}):
            sends, receives = self._sends.get(ends, []), self._receives.get(ends, [])
            if Counter(m[:2] for m in sends) != Counter(m[:2] for m in receives):
                yield from self._unmatched(*ends, sends, receives)

    def _unmatched(
        self, source: int, target: int, sends: Sequence[_Message], receives: Sequence[_Message]
    ) -> Iterator[Finding]:
        sent, received = _surplus(sends, receives), _surplus(receives, sends)
        for send in sent:
            what = f"rank {target} does not receive {_said(send)} of rank {source}"
            other = _nearest(send, received)
            if other is None:
                yield self._find(send.place, what, f"add the receive to the trace of rank {target}")
                continue
            received.remove(other)
            fix = f"make them equal; the receive is {self._where(other.place)}"
            yield self._find(send.place, f"{what}, but {_said(other)}", fix)
        for receive in received:
            what = f"rank {source} does not send {_said(receive)} to rank {target}"
            yield self._find(receive.place, what, f"add the send to the trace of rank {source}")

    def disagreements(self) -> Iterator[Finding]:
        """Collectives of which members have another type, size or order, or none at all."""
        assert self._n is not None
        for name, by_rank in self._collectives.items():
            members = sorted(self._groups[name]) if name else range(self._n)
            absent = [rank for rank in members if rank >= self._n]
            if absent:
                first = next(iter(by_rank.values()))[0]
                what = f"{_group(name)} has rank {absent[0]}, of which there is no trace"
                fix = "write its trace, or take it out of the group"
                yield self._find(first.place, what, fix)
            there = {rank: by_rank.get(rank, []) for rank in members if rank < self._n}
            yield from self._disagree(_group(name), there)

    def _disagree(self, group: str, by_rank: Mapping[int, Sequence[_Meeting]]) -> Iterator[Finding]:
        """Every rank that does not do as most do, and where it first differs."""
        contents = {rank: tuple(m.content for m in meetings) for rank, meetings in by_rank.items()}
        usual, count = Counter(contents.values()).most_common(1)[0]
        model = next(rank for rank, content in contents.items() if content == usual)
        others = f"rank {model}" + (f" and {count - 1} more" if count > 1 else "")
        for rank, content in contents.items():
            if content == usual:
                continue
            pairs = enumerate(zip_longest(by_rank[rank], by_rank[model]))
            k, (here, there) = next(
                (k, (a, b)) for k, (a, b) in pairs if not (a and b and a.content == b.content)
            )
            known = here or there
            assert known is not None
            what = (
                f"collective number {k} over {group} is {here or 'none'} on rank {rank}, "
                f"{there or 'none'} on {others}"
            )
            again = "; they do, in another order" if sorted(content) == sorted(usual) else ""
            fix = f"members must run the same collectives in the same order{again}"
            yield self._find(known.place, what, fix)

    def crossed_collectives(self) -> Iterator[Finding]:
        """Collectives of several groups that ranks issue in orders which cannot all be kept.

        With one communication at a time, as in ASTRA-sim, such ranks wait for each other for ever.
        """
        members = Counter(meeting for order in self._order.values() for meeting in order)
        at = dict.fromkeys(self._order, 0)
        arrived: dict[tuple[str, int], list[int]] = {}
        moving = list(self._order)
        while moving:
            rank = moving.pop()
            if at[rank] == len(self._order[rank]):
                continue
            meeting = self._order[rank][at[rank]]
            here = arrived.setdefault(meeting, [])
            here.append(rank)
            if len(here) == members[meeting]:
                for member in here:
                    at[member] += 1
                moving += here
        stuck = {rank for rank, k in at.items() if k < len(self._order[rank])}
        for rank in sorted(stuck)[:1]:
            name, k = meeting = self._order[rank][at[rank]]
            other = min(r for r in stuck if meeting in self._order[r][at[r] + 1 :])
            before = self._order[other][at[other]]
            yield self._find(
                self._collectives[name][rank][k].place,
                f"rank {rank} runs collective number {k} over {_group(name)} first, rank {other} "
                f"number {before[1]} over {_group(before[0])}: {len(stuck)} ranks wait for each "
                "other if each communicates once at a time",
                "give ranks one order (lower ids first), or run it with a stream for each group",
            )


def _group(name: str) -> str:
    return f"group {name!r}" if name else "all ranks"


def _said(message: _Message) -> str:
    return f"{message.size:,} B with tag {message.tag}"


def _read(raw: TraceNode) -> Node | _Fault | None:
    """A node that communicates, or what is wrong with any; nothing for others."""
    if raw.type < NodeType.COMP:
        return None
    try:
        node = node_of(raw)
    except DimsweepError as error:
        return f"{error.where.rpartition('.')[2]}: {error.what}", "write a number there"
    if raw.type not in _NEEDED:
        return None
    missing = [name for name in _NEEDED[raw.type] if name not in raw.attributes]
    if missing:
        return f"a {raw.type.name} node without {', '.join(missing)}", "add it"
    return node


def _surplus(some: Sequence[_Message], others: Sequence[_Message]) -> list[_Message]:
    """Those of ``some`` that find no equal among ``others``."""
    left = Counter(m[:2] for m in others)
    surplus = []
    for message in some:
        if left[message[:2]]:
            left[message[:2]] -= 1
        else:
            surplus.append(message)
    return surplus


def _nearest(send: _Message, receives: Sequence[_Message]) -> _Message | None:
    """The receive that was probably meant: of the same tag, else of the same size."""
    same_tag = [receive for receive in receives if receive.tag == send.tag]
    same_size = [receive for receive in receives if receive.size == send.size]
    return next(iter(same_tag + same_size), None)
