"""Nodes: the operators of every class of ranks, and the flows that join them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.cluster.cluster import Cluster
from engine.errors import DimsweepError
from engine.lower import program as p
from engine.lower.forms import Forms, Interned
from engine.lower.stages import Folding
from engine.workload.coordinates import Offset, back, modulo
from engine.workload.graph import Access, Collective, Compute, Operator, Receive, Send, Workload

MEMORY = "memory"  # the stream of accesses to remote memory


class _Transfer(NamedTuple):
    """What a send or receive is matched by; ``offset`` modulo the sizes."""

    cls: int
    offset: Offset
    tag: int


class _Meeting(NamedTuple):
    """What a collective is matched by: ``number`` counts those over this group of these classes."""

    group: str
    classes: tuple[int, ...]
    number: int


class _Known(NamedTuple):
    """What is the same wherever a class runs some work: the columns of its node, and the form and
    the classes of its collective."""

    cls: int
    kind: int
    stream: int
    tally: int
    duration: int
    memory: int
    form: int
    classes: tuple[int, ...]


class Nodes:
    """The operators of every class, and the flows that join them."""

    def __init__(
        self, workload: Workload, cluster: Cluster, folding: Folding, forms: Forms
    ) -> None:
        self.name: list[str] = []
        self.cls: list[int] = []
        self.key: list[int] = []
        self.flow: list[int] = []
        self.after: list[tuple[int, ...]] = []
        self.streams: Interned[str] = Interned()  # before collectives take several in turn
        if cluster.memory is not None:
            self.streams(MEMORY)  # the first after the one that computes: both time what they run
        self.tallies: Interned[str] = Interned()
        self.flow_form: list[int] = []
        self.flow_group: list[str] = []  # "" for a message from point to point
        self.members: list[list[int]] = []  # nodes of a flow
        self.receiver: list[int] = []
        self._sends: dict[_Transfer, list[int]] = {}
        self._receives: dict[_Transfer, list[int]] = {}
        self._collectives: dict[_Meeting, int] = {}
        # What is known of each node, by number; a class finds it by the work's identity, since
        # graphs share what they repeat.
        self._what: list[int] = []
        self._entries: list[_Known] = []
        self._known: dict[int, int] = {}
        self._folding, self._forms, self._workload, self._cluster = (
            folding,
            forms,
            workload,
            cluster,
        )
        graph_key = np.cumsum([0, *(len(graph) for graph in workload.graphs)])
        for cls, graph in enumerate(folding.graph):
            base, seen = len(self.name), dict[str, int]()
            self._known.clear()
            operators, first = workload.graphs[graph], int(graph_key[graph])
            self.cls += [cls] * len(operators)
            self.key += range(first, first + len(operators))
            for operator in operators:
                self._add(cls, operator, base, seen)
        self.stream, self.stream_names = self._in_turn(cluster.collectives.streams)
        self._check_complete()

    def _check_complete(self) -> None:
        """Every member of a group must run as many collectives over it as the others."""
        for (group, classes, number), flow in self._collectives.items():
            present = {self.cls[node] for node in self.members[flow]}
            absent = sorted(set(classes) - present)
            if absent:
                node = self.members[flow][0]
                raise DimsweepError(
                    f"rank {self._folding.first[self.cls[node]]} waits in {self.name[node]!r} for "
                    f"rank {self._folding.first[absent[0]]}, which never runs collective number "
                    f"{number} of group {group!r}",
                    where="workload",
                )

    def _add(self, cls: int, operator: Operator, base: int, seen: dict[str, int]) -> None:
        node, work, flow = len(self.name), operator.work, -1
        number = self._known.get(id(work))
        if number is None:
            number = self._known[id(work)] = len(self._entries)
            self._entries.append(self._know(cls, operator))
        known = self._entries[number]
        self._what.append(number)
        self.name.append(operator.name)
        self.after.append(tuple([base + i for i in operator.after]))
        if known.kind == p.NodeKind.COLLECTIVE:
            assert isinstance(work, Collective)
            flow = self._join(cls, node, work, known, seen)
        elif known.kind == p.NodeKind.SEND:
            flow = self._new_flow(known.form, "", node)
            assert isinstance(work, Send)
            self._sends.setdefault(self._transfer(cls, work), []).append(node)
        elif known.kind == p.NodeKind.RECEIVE:
            assert isinstance(work, Receive)
            self._receives.setdefault(self._transfer(cls, work), []).append(node)
        self.flow.append(flow)

    def _in_turn(self, n: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Each node's stream, and the streams' names: collectives take ``n`` streams in turn."""
        stream, names = self.column("stream"), list(self.streams)
        of = np.flatnonzero(self.column("kind") == p.NodeKind.COLLECTIVE)
        if n == 1 or not len(of):
            return stream, tuple(names)
        places = self.column("cls")[of] * len(names) + stream[of]
        order = np.argsort(places, kind="stable")
        number = np.arange(len(of)) - np.searchsorted(places[order], places[order])
        turn = np.empty(len(of), dtype=np.int64)
        turn[order] = number % n
        turns = np.unique(np.stack([turn, stream[of]], axis=1), axis=0)
        for again, base in turns[turns[:, 0] > 0].tolist():
            stream[of[(turn == again) & (self.column("stream")[of] == base)]] = 1 + len(names)
            names.append(f"{names[base - 1]} {again + 1}")
        return stream, tuple(names)

    def column(self, name: str) -> NDArray[np.int64]:
        """A field of what is known of each node: cls, kind, stream, tally, duration or memory."""
        values = np.array([getattr(known, name) for known in self._entries], dtype=np.int64)
        return values[self._what]

    def _know(self, cls: int, operator: Operator) -> _Known:
        work = operator.work
        if isinstance(work, Compute):
            duration, memory = self._compute(operator.name, work)
            return _Known(cls, p.NodeKind.COMPUTE, 0, -1, duration, memory, -1, ())
        if isinstance(work, Access):
            stream, tally = 1 + self.streams(MEMORY), self.tallies("memory")
            duration = self._access(operator.name, work)
            return _Known(cls, p.NodeKind.ACCESS, stream, tally, duration, duration, -1, ())
        if isinstance(work, Collective):
            stream = 1 + self.streams(work.stream or work.group)
            tally = self.tallies(f"{work.kind} {work.group}")
            form = self._forms.collective(work, self._workload.groups[work.group])
            classes = self._folding.members[cls][work.group]
            return _Known(cls, p.NodeKind.COLLECTIVE, stream, tally, 0, 0, form, classes)
        if isinstance(work, Send):
            stream, tally = 1 + self.streams(work.stream), self.tallies("send")
            return _Known(cls, p.NodeKind.SEND, stream, tally, 0, 0, self._forms.transfer(work), ())
        return _Known(cls, p.NodeKind.RECEIVE, p.NO_STREAM, self.tallies("receive"), 0, 0, -1, ())

    def _compute(self, name: str, work: Compute) -> tuple[int, int]:
        """Picoseconds, and those of them that memory bandwidth sets."""
        npu = self._cluster.npu
        try:
            return npu.duration(work), npu.memory_bound(work)
        except DimsweepError as error:
            raise DimsweepError(
                f"operator {name!r}: {error.what}", where=error.where, hint=error.hint
            ) from None

    def _access(self, name: str, work: Access) -> int:
        if self._cluster.memory is None:
            raise DimsweepError(
                f"operator {name!r} uses remote memory, and there is none", where="memory"
            )
        return self._cluster.memory.duration(work.n_bytes)

    def _new_flow(self, form: int, group: str, node: int) -> int:
        self.flow_form.append(form)
        self.flow_group.append(group)
        self.members.append([node])
        self.receiver.append(-1)
        return len(self.flow_form) - 1

    def _join(
        self, cls: int, node: int, work: Collective, known: _Known, seen: dict[str, int]
    ) -> int:
        """The flow of the class's next collective over this group; members must agree on it."""
        number = seen[work.group] = seen.get(work.group, -1) + 1
        if len(known.classes) == 1:  # none but this class takes part
            return self._new_flow(known.form, work.group, node)
        key = _Meeting(work.group, known.classes, number)
        flow = self._collectives.get(key)
        if flow is None:
            self._collectives[key] = flow = self._new_flow(known.form, work.group, node)
            return flow
        if self.flow_form[flow] != known.form:
            first = self.members[flow][0]
            raise DimsweepError(
                f"members of group {work.group!r} disagree on its collective number {number}: rank "
                f"{self._folding.first[self.cls[first]]} runs {self.name[first]!r}, rank "
                f"{self._folding.first[cls]} runs {self.name[node]!r}",
                where="workload",
                hint="kind, size and priority must be the same on all members",
            )
        self.members[flow].append(node)
        return flow

    def _transfer(self, cls: int, work: Send | Receive) -> _Transfer:
        return _Transfer(cls, modulo(work.offset, self._cluster.topology.sizes), work.tag)

    def match_transfers(self) -> None:
        """Give every send its receive: the k-th with the same peer and tag, on both sides."""
        sizes = self._cluster.topology.sizes
        for key, sends in self._sends.items():
            peer = self._folding.peers[key.cls][key.offset]
            there = _Transfer(peer, back(key.offset, sizes), key.tag)
            receives = self._receives.get(there, [])
            if len(receives) != len(sends):
                raise self._unmatched(key, peer, sends, receives)
            for send, receive in zip(sends, receives, strict=True):
                self.receiver[self.flow[send]] = receive
                self.flow[receive] = self.flow[send]
        for key, receives in self._receives.items():
            for receive in receives:
                if self.flow[receive] < 0:
                    raise DimsweepError(
                        f"rank {self._folding.first[key.cls]} waits in {self.name[receive]!r} "
                        f"(tag {key.tag}) for a message that nobody sends",
                        where="workload",
                    )

    def _unmatched(
        self, key: _Transfer, peer: int, sends: list[int], receives: list[int]
    ) -> DimsweepError:
        first = self._folding.first
        return DimsweepError(
            f"rank {first[key.cls]} sends {len(sends)} messages with tag {key.tag} (the first is "
            f"{self.name[sends[0]]!r}) to ranks like rank {first[peer]}, which receive "
            f"{len(receives)}",
            where="workload",
        )
