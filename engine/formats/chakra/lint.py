"""Linter of a job's Chakra traces: it checks each trace, and all of them against one another.

Faults between ranks are sends without receives, collectives whose members disagree, and nodes that
wait for each other for ever.

A repair is safe if it loses no order that the trace can mean: a dependency on a missing node, or
on the node itself, can never be met, and of two equal nodes one is redundant.  An additional
attribute that contradicts a standard field follows the field, which every other tool reads.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import extras
from dimsweep.engine.formats.chakra.node import (
    COMMUNICATION,
    MOST_RANKS,
    Node,
    groups_text,
    involved_group,
    node_of,
    recorded_groups,
)
from dimsweep.engine.formats.chakra.stats import collective_name
from dimsweep.engine.formats.chakra.trace import (
    CollectiveType,
    Edges,
    NodeType,
    Trace,
    TraceNode,
    Value,
    dependency_edges,
    issue_order,
    strong_components,
)
from dimsweep.engine.formats.chakra.trace_files import Scanned
from dimsweep.engine.topology.coordinates import first_members

_MOST_IDS = 6


@dataclass(frozen=True)
class Finding:
    """A fault ``what`` at the place ``where`` (file, node, byte), and how to correct it, ``fix``.

    ``repair`` describes the change of :func:`repaired`; empty if only the user can decide.
    """

    where: str
    what: str
    fix: str
    repair: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  {self.fix}"


def lint_trace(scanned: Scanned) -> Iterator[Finding]:
    """Yield all faults of a trace's dependency graph, and of its file if it is damaged."""
    trace, places, fault = scanned
    nodes, index = trace.nodes, _index(trace)

    def describe_place(i: int) -> str:
        return places.describe(i + 1, nodes[i].id, nodes[i].name)

    if fault is not None:
        fix = fault.hint or "write the trace again; the following findings concern the nodes before"
        yield Finding(fault.where, fault.problem, fix)
    elif not nodes:
        yield Finding(str(places.path), "the trace has no nodes", "give the rank something to do")
    for i, node in enumerate(nodes):
        first = nodes[index[node.id]]
        if index[node.id] != i:
            equal = _repair_node(node, index) == _repair_node(first, index)
            what = f"{first.name!r} has the same id" + (", and is equal" if equal else "")
            fix = "write a node once" if equal else "number the nodes, and what they wait for, anew"
            yield Finding(describe_place(i), what, fix, "dropped" if equal else "")
    edges = dependency_edges(nodes, index)
    for i in np.unique(edges.sources[edges.targets < 0]).tolist():
        here = edges.targets[edges.offsets[i] : edges.offsets[i + 1]]
        waits = nodes[i].data_dependencies + nodes[i].control_dependencies
        missing = [str(waits[k]) for k in np.flatnonzero(here < 0)]
        listed = ", ".join(missing[:_MOST_IDS])
        what = f"it waits for id {listed}{', ...' * (len(missing) > _MOST_IDS)}, "
        what += f"which {'is' if len(missing) == 1 else 'are'} not in the trace"
        what += " as far as it goes" if fault is not None else ""
        fix = "write that node as well, or drop the dependency"
        yield Finding(describe_place(i), what, fix, f"dropped the dependency on id {listed}")
    for i in np.unique(edges.sources[edges.sources == edges.targets]).tolist():
        repair = "dropped the dependency on itself"
        yield Finding(describe_place(i), "it waits for itself", "drop the dependency", repair)
    for i, node in enumerate(nodes):
        for conflict in extras.conflicts(node):
            repair = f"set {conflict.attribute} to {conflict.agreeing}"
            yield Finding(describe_place(i), conflict.what, conflict.fix, repair)
    for members in _circles(edges, len(nodes)) if len(index) == len(nodes) else ():
        named = ", ".join(f"id {nodes[i].id} ({nodes[i].name!r})" for i in members[1:_MOST_IDS])
        more = f" and {len(members) - _MOST_IDS} more" if len(members) > _MOST_IDS else ""
        fix = "drop one of the dependencies among them; the job decides which one"
        yield Finding(
            describe_place(members[0]), f"it waits for itself, by way of {named}{more}", fix
        )


def _circles(edges: Edges, n: int) -> Iterator[list[int]]:
    """Yield the nodes of each circle: strongly connected components of several of ``n`` nodes."""
    there = edges.targets >= 0
    if not there.all():
        counts = np.bincount(edges.sources[there], minlength=n)
        edges = Edges(np.concatenate(([0], np.cumsum(counts))), edges.targets[there])
    component = strong_components(edges)
    if component is None:
        return
    size = np.bincount(component)
    order, end = np.argsort(component, kind="stable"), np.cumsum(size)
    for number in np.flatnonzero(size > 1):
        yield order[end[number] - size[number] : end[number]].tolist()


def repaired(trace: Trace) -> Trace:
    """Return the trace with all safe repairs made, or the same object if nothing needs repair."""
    index = _index(trace)
    nodes = [_repair_node(node, index) for node in trace.nodes]
    mended = tuple(
        node for i, node in enumerate(nodes) if index[node.id] == i or node != nodes[index[node.id]]
    )
    return trace if mended == trace.nodes else replace(trace, nodes=mended)


def _repair_node(node: TraceNode, index: dict[int, int]) -> TraceNode:
    def possible(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i for i in ids if i in index and i != node.id)

    agreeing = {conflict.attribute: conflict.agreeing for conflict in extras.conflicts(node)}
    if agreeing:
        node = node._replace(attributes={**node.attributes, **agreeing})
    data, control = possible(node.data_dependencies), possible(node.control_dependencies)
    if len(data) + len(control) == len(node.data_dependencies) + len(node.control_dependencies):
        return node
    return node._replace(data_dependencies=data, control_dependencies=control)


def _index(trace: Trace) -> dict[int, int]:
    """Return the place in the trace of the first node with each id."""
    # A later entry replaces an earlier one, so the last to come is the first in the file.
    last = len(trace.nodes) - 1
    return {node.id: last - i for i, node in enumerate(reversed(trace.nodes))}


Place = tuple[int, int]  # rank, and place in its trace
Fault = tuple[str, str]  # the problem, and the fix


class _Message(NamedTuple):
    """A send or a receive node of one rank, with its tag and size."""

    tag: int
    size: int
    place: Place

    @property
    def content(self) -> tuple[int, int]:
        """Tag and size, on which both ends must agree, as in ASTRA-sim."""
        return self.tag, self.size

    def __str__(self) -> str:
        return f"{self.size:,} B with tag {self.tag}"


class Messages:
    """The sends and receives among ``n`` ranks; ``where`` returns a node's place in words."""

    def __init__(self, n: int, where: Callable[[Place], str]) -> None:
        self._n, self._where = n, where
        self._sends: dict[tuple[int, int], list[_Message]] = {}  # by source and target
        self._receives: dict[tuple[int, int], list[_Message]] = {}

    def add(self, place: Place, node: Node) -> Fault | None:
        """Record a send or a receive; return a fault if its peer is not another rank."""
        rank, sends = place[0], node.type is NodeType.COMM_SEND
        peer = node.target if sends else node.source
        if peer >= self._n or peer == rank:
            what = f"its peer is rank {peer}" + (", itself" if peer == rank else "")
            return what, f"there are traces of ranks 0 to {self._n - 1}"
        ends = (rank, peer) if sends else (peer, rank)
        table = self._sends if sends else self._receives
        table.setdefault(ends, []).append(_Message(node.tag, node.size, place))
        return None

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each send or receive without a counterpart of equal tag and size."""
        for ends in sorted({*self._sends, *self._receives}):
            sends, receives = self._sends.get(ends, []), self._receives.get(ends, [])
            if Counter(m.content for m in sends) != Counter(m.content for m in receives):
                yield from self._unmatched(*ends, sends, receives)

    def pairs(self) -> Iterator[tuple[Place, Place]]:
        """Yield (receive, send) of each matched message; equal ones match in order of issue."""
        for ends, receives in self._receives.items():
            sends: dict[tuple[int, int], deque[Place]] = {}
            for send in self._sends.get(ends, []):
                sends.setdefault(send.content, deque()).append(send.place)
            for receive in receives:
                if sends.get(receive.content):
                    yield receive.place, sends[receive.content].popleft()

    def _unmatched(
        self, source: int, target: int, sends: Sequence[_Message], receives: Sequence[_Message]
    ) -> Iterator[Finding]:
        sent, received = _surplus(sends, receives), _surplus(receives, sends)
        for send in sent:
            what = f"rank {target} does not receive {send} of rank {source}"
            same_tag = [receive for receive in received if receive.tag == send.tag]
            same_size = [receive for receive in received if receive.size == send.size]
            if similar := same_tag or same_size:  # probably the intended one
                received.remove(similar[0])
                what += f", but {similar[0]}"
                fix = f"make them equal; the receive is {self._where(similar[0].place)}"
            else:
                fix = f"add the receive to the trace of rank {target}"
            yield Finding(self._where(send.place), what, fix)
        for receive in received:
            what = f"rank {source} does not send {receive} to rank {target}"
            fix = f"add the send to the trace of rank {source}"
            yield Finding(self._where(receive.place), what, fix)


def _surplus(some: Sequence[_Message], others: Sequence[_Message]) -> list[_Message]:
    """Return the messages of ``some`` that have no partner of equal tag and size in ``others``."""
    left = Counter(message.content for message in others)
    surplus = []
    for message in some:
        if left[message.content]:
            left[message.content] -= 1
        else:
            surplus.append(message)
    return surplus


class _Meeting(NamedTuple):
    """A collective as one rank issues it: type, size, name and place."""

    collective: int
    size: int
    name: str
    place: Place

    @property
    def content(self) -> tuple[int, int]:
        return self.collective, self.size

    def __str__(self) -> str:
        return f"{collective_name(self.collective)} of {self.size:,} B"


class Collectives:
    """The collectives of all ranks, by communicator group, and the check that members agree.

    ``groups`` lists the ranks of each communicator group. ``n`` is the number of ranks, None if a
    single trace has no other to compare with. ``sizes`` are the dimensions' sizes, if known.
    ``where`` returns a node's place in words.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[int]],
        n: int | None,
        sizes: tuple[int, ...] | None,
        where: Callable[[Place], str],
    ) -> None:
        self._groups, self._n, self._sizes, self._where = groups, n, sizes, where
        self._missing: set[str] = set()
        # By the name of the set of participating ranks.
        self._members: dict[str, Sequence[int]] = {"all ranks": range(n or 0)}
        self._meetings: dict[str, dict[int, list[_Meeting]]] = {}  # and by rank
        # By rank: the group, and the number of the collective in it.
        self._order: dict[int, list[tuple[str, int]]] = {}
        self._first: dict[tuple[bool, ...], list[int]] = {}  # of every rank's sub-mesh
        self._shapes: dict[Value, tuple[int, ...]] = {}  # by the group's name in traces of dimsweep

    def add(self, place: Place, node: Node, name: Value) -> Fault | None:
        """Record the next collective that a rank issues; return a fault if its group is wrong.

        ``name`` is the group's name in the workload, None in traces of other tools.
        """
        rank = place[0]
        fault = self._membership(rank, node.group) if node.group not in ("", "0") else None
        fault = fault or self._renamed(node, name)
        if fault:
            return fault
        over = self._participants(rank, node)
        if self._n is None or over is None:
            return None
        meetings = self._meetings.setdefault(over, {}).setdefault(rank, [])
        self._order.setdefault(rank, []).append((over, len(meetings)))
        meetings.append(_Meeting(node.collective, node.size, node.name, place))
        return None

    def _membership(self, rank: int, name: str) -> Fault | None:
        if name not in self._groups:
            if name in self._missing:
                return None  # reported for its first node
            self._missing.add(name)
            known = ", ".join(list(self._groups)[:8]) or "none; give a file of them"
            return f"there is no communicator group {name!r}", f"groups: {known}"
        if self._n is not None and rank not in self._groups[name]:
            return f"rank {rank} is no member of its group {name!r}", "add it, or name another"
        return None

    def _renamed(self, node: Node, name: Value) -> Fault | None:
        """Return a fault if group ``name`` has another shape than at an earlier node.

        The shape is the group's ranks relative to the first, or its involved dimensions.
        """
        if name is None or node.group in self._missing:
            return None
        ranks = sorted(self._groups.get(node.group, ()))
        shape = tuple(rank - ranks[0] for rank in ranks) or node.involved
        if self._shapes.setdefault(name, shape) == shape:
            return None
        standard = f"pg_name {node.group!r}" if ranks else f"involved_dim {node.involved}"
        what = f"{extras.GROUP} is {name!r}, but {standard} has another shape than before"
        return what, f"name a group of the former shape, or another {extras.GROUP}"

    def _participants(self, rank: int, node: Node) -> str | None:
        """Return the name of the set of participating ranks, and record it; None if unknown."""
        if node.group in self._missing:
            return None
        if node.group not in ("", "0"):
            over = f"group {node.group!r}"
            self._members.setdefault(over, self._groups[node.group])
            return over
        if all(node.involved):
            return "all ranks"
        if not self._sizes:
            return None
        if node.involved not in self._first:
            group = involved_group(node.involved, self._sizes)
            self._first[node.involved] = first_members(group, self._sizes).tolist()
        firsts = self._first[node.involved]
        dims = " ".join(str(d) for d, use in enumerate(node.involved) if use)
        over = f"dimensions {dims or 'none'} of rank {firsts[rank]}"
        if over not in self._members:
            self._members[over] = [r for r, first in enumerate(firsts) if first == firsts[rank]]
        return over

    def disagreements(self) -> Iterator[Finding]:
        """Yield collectives that differ between members in type, size or order, or are missing."""
        n = self._n or 0
        for over, by_rank in self._meetings.items():
            members = sorted(self._members[over])
            absent = [rank for rank in members if rank >= n]
            if absent:
                first = next(iter(by_rank.values()))[0]
                what = f"{over} has rank {absent[0]}, of which there is no trace"
                fix = "write its trace, or take it out of the group"
                yield Finding(self._where(first.place), what, fix)
            there = {rank: by_rank.get(rank, []) for rank in members if rank < n}
            yield from self._disagree(over, there)

    def _disagree(self, over: str, by_rank: Mapping[int, Sequence[_Meeting]]) -> Iterator[Finding]:
        """Yield a finding for each rank that differs from the majority, at its first difference."""
        contents = {rank: tuple(m.content for m in meetings) for rank, meetings in by_rank.items()}
        usual, count = Counter(contents.values()).most_common(1)[0]
        model = next(rank for rank, content in contents.items() if content == usual)
        others = f"rank {model}" + (f" and {count - 1} more" if count > 1 else "")
        for rank, content in contents.items():
            if content == usual:
                yield from self._swapped(over, rank, by_rank[rank], model, by_rank[model])
                continue
            pairs = enumerate(zip_longest(by_rank[rank], by_rank[model]))
            k, (here, there) = next(
                (k, (a, b)) for k, (a, b) in pairs if not (a and b and a.content == b.content)
            )
            known = here or there
            assert known is not None
            what = (
                f"collective number {k} over {over} is {here or 'none'} on rank {rank}, "
                f"{there or 'none'} on {others}"
            )
            again = "; they do, in another order" if sorted(content) == sorted(usual) else ""
            fix = f"members must run the same collectives in the same order{again}"
            if here and there:
                fix += f"; that of rank {model} is {self._where(there.place)}"
            yield Finding(self._where(known.place), what, fix)

    def _swapped(
        self, over: str, rank: int, here: Sequence[_Meeting], model: int, there: Sequence[_Meeting]
    ) -> Iterator[Finding]:
        """Yield findings for equal collectives that two ranks issue in different orders."""
        names, others = [m.name for m in here], [m.name for m in there]
        if names == others or sorted(names) != sorted(others):
            return
        k, a, b = next(
            (k, *ab)
            for k, ab in enumerate(zip(here, there, strict=True))
            if ab[0].name != ab[1].name
        )
        yield Finding(
            self._where(a.place),
            f"collective number {k} over {over} is {a.name!r} on rank {rank}, {b.name!r} on rank "
            f"{model}: they issue the same ones in different orders",
            "members match by the order of issue, so these two would run as one; that of rank "
            f"{model} is {self._where(b.place)}",
        )

    def turns(self, stream_of: Callable[[Place], object]) -> list[list[list[Place]]]:
        """Return each stream's collectives, by communicator and member, in the order of issue."""
        found: dict[tuple[str, object], dict[int, list[Place]]] = {}
        for over, by_rank in self._meetings.items():
            for rank, meetings in by_rank.items():
                for meeting in meetings:
                    stream = found.setdefault((over, stream_of(meeting.place)), {})
                    stream.setdefault(rank, []).append(meeting.place)
        return [list(by_rank.values()) for by_rank in found.values()]

    def crossed(self) -> Iterator[Finding]:
        """Yield findings for collectives of several groups that ranks issue in incompatible orders.

        With one communication at a time, as in ASTRA-sim, such ranks wait for each other for ever.
        """
        stuck = self._stuck()
        for rank in sorted(stuck)[:1]:
            over, k = meeting = self._order[rank][stuck[rank]]
            other = min(r for r in stuck if meeting in self._order[r][stuck[r] + 1 :])
            before = self._order[other][stuck[other]]
            yield Finding(
                self._where(self._meetings[over][rank][k].place),
                f"rank {rank} runs collective number {k} over {over} first, rank {other} "
                f"number {before[1]} over {before[0]}: {len(stuck)} ranks wait for each "
                "other if each communicates once at a time",
                "give ranks one order (lower ids first), or run it with a stream for each group",
            )

    def _stuck(self) -> dict[int, int]:
        """Return the ranks that block if each runs one collective at a time, and the collective."""
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
        return {rank: k for rank, k in at.items() if k < len(self._order[rank])}


_MOST_WAITS = 8
_Longs = NDArray[np.int64]


class _Waits(NamedTuple):
    """Edges from waiting nodes to the nodes that they wait for, among all ranks.

    Nodes are numbered rank by rank; joined collectives, which have a part on each member, follow.
    ``meant`` is the waiting rank's own part of a joined collective, else the target.
    """

    sources: _Longs
    targets: _Longs
    meant: _Longs


class Deadlocks:
    """Finder of circles of waiting nodes; ``where`` returns a node's place in words."""

    def __init__(self, ranks: Sequence[Sequence[TraceNode]], where: Callable[[Place], str]) -> None:
        self._ranks, self._where = ranks, where
        self._first = np.cumsum([0, *map(len, ranks)])  # of each rank's nodes

    def findings(
        self, turns: Sequence[Sequence[Sequence[Place]]], messages: Sequence[tuple[Place, Place]]
    ) -> Iterator[Finding]:
        """Yield a finding for each circle of nodes that wait for each other.

        ``turns`` has, for each communicator, the collectives of each member in the order of issue;
        ``messages`` each receive and its send.  All dependencies must exist.
        """
        waits = self._waits(turns, messages)
        n = int(max(waits.sources.max(initial=-1), waits.targets.max(initial=-1))) + 1
        order = np.argsort(waits.sources, kind="stable")
        counts = np.bincount(waits.sources, minlength=n)
        component = strong_components(
            Edges(np.concatenate(([0], np.cumsum(counts))), waits.targets[order])
        )
        if component is None:
            return
        inner = component[waits.sources] == component[waits.targets]
        inner &= (np.bincount(component) > 1)[component[waits.sources]]
        after: dict[int, dict[int, int]] = defaultdict(dict)
        for source, target, meant in zip(*(each[inner].tolist() for each in waits), strict=True):
            after[source].setdefault(target, meant)
        reported: set[int] = set()
        for node in sorted(after):
            if component[node] not in reported and node < self._first[-1]:
                reported.add(int(component[node]))
                yield self._finding(node, after)

    def _waits(
        self, turns: Sequence[Sequence[Sequence[Place]]], messages: Sequence[tuple[Place, Place]]
    ) -> _Waits:
        known: dict[int, Edges] = {}  # ranks may share a trace
        pairs = [np.zeros((0, 2), np.int64)]
        for first, nodes in zip(self._first.tolist(), self._ranks, strict=False):
            if id(nodes) not in known:
                known[id(nodes)] = dependency_edges(
                    nodes, {node.id: i for i, node in enumerate(nodes)}
                )
            edges = known[id(nodes)]
            pairs.append(np.stack([edges.sources, edges.targets], axis=1) + first)
        pairs.append(self._pairs(messages))
        end, parts = np.arange(self._first[-1]), list[tuple[int, int]]()
        n = len(end)
        for by_member in turns:
            for members in by_member:
                pairs.append(self._pairs(list(zip(members[1:], members, strict=False))))
                numbers = [self._number(place) for place in members]
                end[numbers] = np.arange(n, n + len(numbers))
                parts += zip(range(n, n + len(numbers)), numbers, strict=True)
            n += max(map(len, by_member))
        sources, meant = np.concatenate(pairs).T
        joined = np.array(parts, np.int64).reshape(-1, 2)
        return _Waits(
            np.concatenate([sources, joined[:, 0]]),
            np.concatenate([end[meant], joined[:, 1]]),
            np.concatenate([meant, joined[:, 1]]),
        )

    def _pairs(self, places: Sequence[tuple[Place, Place]]) -> _Longs:
        numbers = [(self._number(one), self._number(other)) for one, other in places]
        return np.array(numbers, np.int64).reshape(-1, 2)

    def _number(self, place: Place) -> int:
        return int(self._first[place[0]]) + place[1]

    def _finding(self, start: int, after: dict[int, dict[int, int]]) -> Finding:
        circle = _circle(start, after)
        waits, ranks = list[str](), set[int]()
        for source, target in zip(circle, [*circle[1:], start], strict=True):
            if source >= self._first[-1]:
                continue
            (rank, i), (there, k) = self._place(source), self._place(after[source][target])
            node, other = self._ranks[rank][i], self._ranks[there][k]
            is_behind = rank == there and other.id not in node.dependencies
            waits.append(
                f"rank {rank}: {node.name!r} (id {node.id}) "
                + ("comes behind" if is_behind else "waits for")
                + f" {other.name!r} (id {other.id})"
                + ("" if rank == there else f" of rank {there}")
            )
            ranks.add(rank)
        more = f"; and {len(waits) - _MOST_WAITS} more" if len(waits) > _MOST_WAITS else ""
        return Finding(
            self._where(self._place(start)),
            f"{len(ranks)} ranks wait for each other for ever, whatever anything lasts: "
            + "; ".join(waits[:_MOST_WAITS])
            + more,
            "a communicator runs its collectives in the order of issue (lower ids first): issue "
            "them in an order that allows what they wait for",
        )

    def _place(self, number: int) -> Place:
        rank = int(np.searchsorted(self._first, number, side="right")) - 1
        return rank, number - int(self._first[rank])


def _circle(start: int, after: dict[int, dict[int, int]]) -> list[int]:
    """Return the shortest circle of edges ``after`` that contains ``start``."""
    before, found = dict[int, int](), deque([start])
    while start not in before:
        node = found.popleft()
        for target in after[node]:
            if target not in before:
                before[target] = node
                found.append(target)
    circle = [before[start]]
    while circle[-1] != start:
        circle.append(before[circle[-1]])
    return circle[::-1]


@collector_paused()
def lint_job(
    scanned: Sequence[Scanned], groups: Mapping[str, Sequence[int]], *, is_single: bool = False
) -> list[Finding]:
    """Return the faults of the traces of ranks 0, 1, ...

    Parameters
    ----------
    scanned
        The trace of each rank.
    groups
        The ranks of each communicator group; they precede the groups that traces record.
    is_single
        Whether a single trace stands for one rank or all, with no other to compare it with.
    """
    texts = (map(groups_text, each.trace.nodes) for each in scanned)
    given = {name: tuple(ranks) for name, ranks in groups.items()}
    n = len(scanned)
    noted = recorded_groups(texts, MOST_RANKS if is_single else n, given)
    traces = [
        replace(each.trace, nodes=noted.rename_groups(i, each.trace.nodes))
        for i, each in enumerate(scanned)
    ]
    scanned = [each._replace(trace=trace) for each, trace in zip(scanned, traces, strict=True)]

    def describe_place(place: Place) -> str:
        rank, i = place
        node = traces[rank].nodes[i]
        return scanned[rank].places.describe(i + 1, node.id, node.name)

    def stream_of(place: Place) -> Value:
        # Traces of dimsweep may give a collective a separate stream within its communicator.
        rank, i = place
        return traces[rank].nodes[i].attributes.get(extras.STREAM)

    messages = Messages(n, describe_place)
    sizes = _sizes(traces)
    collectives = Collectives(noted.ranks, None if is_single else n, sizes, describe_place)
    found = list(chain.from_iterable(map(lint_trace, scanned)))
    read: dict[int, Node | Fault | None] = {}  # ranks have most nodes in common
    for rank, trace in enumerate(traces):
        for i in issue_order(trace.nodes):
            raw = trace.nodes[i]
            if id(raw) not in read:
                read[id(raw)] = _read(raw)
            node = read[id(raw)]
            if not isinstance(node, Node):
                fault = node
            elif node.type is NodeType.COMM_COLL:
                fault = collectives.add((rank, i), node, raw.attributes.get(extras.GROUP))
            else:
                fault = None if is_single else messages.add((rank, i), node)
            if fault:
                found.append(Finding(describe_place((rank, i)), *fault))
    if is_single:
        return found
    between = [*messages.findings(), *collectives.disagreements()]
    stuck: list[Finding] = []
    if not found and not between:
        deadlocks = Deadlocks([trace.nodes for trace in traces], describe_place)
        stuck += deadlocks.findings(collectives.turns(stream_of), list(messages.pairs()))
    # Deadlocked ranks also block with one communication at a time.
    return [*found, *between, *(stuck or collectives.crossed())]


def _read(raw: TraceNode) -> Node | Fault | None:
    """Return a communicating node with decoded attributes, a fault of its attributes, or None.

    None for all other nodes.
    """
    if raw.type < NodeType.COMP:
        return None
    try:
        node = node_of(raw)
    except DimsweepError as error:
        return f"{error.where.rpartition('.')[2]}: {error.problem}", "write a number there"
    if raw.type not in COMMUNICATION:
        return None
    if node.lacks:
        return f"a {raw.type.name} node without {', '.join(node.lacks)}", "add it"
    if raw.type is NodeType.COMM_COLL and node.collective not in tuple(CollectiveType):
        known = ", ".join(f"{kind.value} ({kind.name})" for kind in CollectiveType)
        return f"comm_type: {node.collective} is no type of collective", f"one of {known}"
    return node


def _sizes(traces: Sequence[Trace]) -> tuple[int, ...] | None:
    """Return the dimensions' sizes if the traces state them and they fit the number of ranks."""
    noted = traces[0].metadata.get(extras.SIZES) if traces else None
    sizes = tuple(n for n in noted if isinstance(n, int)) if isinstance(noted, tuple) else ()
    return sizes if sizes and math.prod(sizes) == len(traces) else None
