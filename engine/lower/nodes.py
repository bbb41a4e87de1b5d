"""Nodes: the operators of every class of ranks, and the flows that join them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from engine.cluster.cluster import Cluster
from engine.cluster.memory import EdgeIo
from engine.errors import DimsweepError
from engine.lower import program as p
from engine.lower.communication import ACCESS, NO_ACCESSES, NOT_SHARED
from engine.lower.forms import Forms, Interned
from engine.lower.issue import in_turn, order_of_issue
from engine.lower.servers import Served, Servers
from engine.lower.stages import Folding
from engine.workload.coordinates import Offset, back, modulo
from engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Graph,
    Operator,
    Receive,
    Send,
    Stamp,
    Work,
    Workload,
    stamps_of,
)

MEMORY = "memory"  # the stream of accesses to remote memory
HOST = "host"  # that of what the host does


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
    """What is the same wherever a class runs some work: the columns of its node, and the form, the
    group ("" for a message) and the classes of its flow."""

    cls: int
    kind: int
    stream: int
    tally: int
    duration: int
    memory: int
    form: int = -1
    group: str = ""
    classes: tuple[int, ...] = ()
    service: int = p.NO_SERVICE

    @property
    def opens(self) -> bool:
        """Whether every such node has a flow of its own."""
        return self.kind == p.NodeKind.SEND or len(self.classes) == 1


class _Template(NamedTuple):
    """A stamp's operators on a class, in columns; places count from the stamp's first."""

    known: NDArray[np.int64]  # what is known of each
    after: NDArray[np.int64]  # (E, 2): who waits, and for whom
    shared: list[tuple[int, Work]]  # those whose flows others take part in


@contextmanager
def _operator(name: str) -> Iterator[None]:
    """Errors from within say which operator they are about."""
    try:
        yield
    except DimsweepError as error:
        what = f"operator {name!r}: {error.what}"
        raise DimsweepError(what, where=error.where, hint=error.hint) from None


class NodeNames(Sequence[str]):
    """The names of the operators of every class, made when they are asked for."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = graphs
        self.start = np.cumsum([0, *(len(graph) for graph in graphs)])  # of each class

    def __len__(self) -> int:
        return int(self.start[-1])

    def __iter__(self) -> Iterator[str]:
        return (operator.name for graph in self._graphs for operator in graph)

    @overload
    def __getitem__(self, node: int) -> str: ...
    @overload
    def __getitem__(self, node: slice) -> list[str]: ...
    def __getitem__(self, node: int | slice) -> str | list[str]:
        if isinstance(node, slice):
            return [self[i] for i in range(*node.indices(len(self)))]
        return self.operator(range(len(self))[node]).name

    def operator(self, node: int) -> Operator:
        """The operator of a node."""
        cls = int(np.searchsorted(self.start, node, side="right")) - 1
        return self._graphs[cls][node - int(self.start[cls])]


class Nodes:
    """The operators of every class, and the flows that join them.

    What a graph repeats is looked at once and then stamped, column by column.
    """

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        folding: Folding,
        forms: Forms,
        servers: Servers,
    ) -> None:
        self._folding, self._forms, self._workload, self._cluster = (
            folding,
            forms,
            workload,
            cluster,
        )
        self._sizes, self._servers = cluster.topology.sizes, servers
        self._modulo = lru_cache(maxsize=None)(partial(modulo, sizes=self._sizes))
        self.streams: Interned[str] = Interned()  # before collectives take several in turn
        # The first after the one that computes: all of these time what they run.
        if cluster.memory is not None:
            self.streams(MEMORY)
        if any(isinstance(work, Compute) and work.on_host for work in workload.works()):
            self.streams(HOST)
        self.n_timed = 1 + len(self.streams)
        self.tallies: Interned[str] = Interned()
        self.services: Interned[Served] = Interned()
        self._known: Interned[_Known] = Interned()
        self._messages: dict[tuple[object, ...], int] = {}
        self._sends: dict[_Transfer, list[int]] = {}
        self._receives: dict[_Transfer, list[int]] = {}
        self._met: list[tuple[int, int, str]] = []  # a collective's node, class and group
        graphs = [workload.graphs[graph] for graph in folding.graph]
        self.name = NodeNames(graphs)
        known, after = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int64)]
        for cls, graph in enumerate(graphs):
            for more_known, more_after in self._stamped(cls, graph):
                known.append(more_known)
                after.append(more_after)
        self._what = np.concatenate(known)
        waits = np.concatenate(after)
        self.key = self._keys()
        issued = order_of_issue(waits, len(self._what))
        self.stream, self.stream_names = self._taken(cluster.collectives.streams, issued)
        # (E, 2): who waits, and for whom.
        self.after = in_turn(waits, self._queued(), issued)
        self._meetings = self._meet(issued)
        self._check_complete()
        self.flow = self._flows()

    def _keys(self) -> NDArray[np.int64]:
        """The order of all nodes: by the place in their graph, then by the graph.

        So ranks order alike what happens to them at once, though each may have a graph of its own.
        """
        cls, graph = self.column("cls"), np.array(self._folding.graph)
        place = np.arange(len(self._what)) - self.name.start[cls]
        key = place * len(self._workload.graphs) + graph[cls]
        if key.max(initial=0) > np.iinfo(np.int32).max:  # as wide as tables have it
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
        return key

    def _stamped(
        self, cls: int, graph: Graph
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """What is known of the nodes of a class, and who waits for whom, stamp by stamp.

        Messages come one a stamp, since each has a tag of its own, and nothing else that is new.
        """
        templates: dict[int, _Template] = {}
        messages: list[int] = []  # what is known of those since the last other stamp
        works: dict[int, _Known] = {}  # by identity: graphs share works, too
        outside: list[tuple[int, int]] = []
        base = int(self.name.start[cls])
        for stamp in stamps_of(graph):
            start = base + stamp.start
            for place, after in stamp.outside:
                outside += [(start + place, base + before) for before in after]
            if len(stamp.operators) == 1 and isinstance(stamp.operators[0].work, (Send, Receive)):
                messages.append(self._message(cls, stamp.operators[0].work))
                self._share(cls, start, stamp.operators[0].work)
                continue
            if messages:
                yield np.array(messages, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
                messages = []
            template = templates.get(id(stamp.operators))
            if template is None:
                template = templates[id(stamp.operators)] = self._template(cls, stamp, works)
            for place, work in template.shared:
                self._share(cls, start + place, work)
            yield template.known, template.after + start
        rest = np.array(outside, dtype=np.int64).reshape(-1, 2)
        yield np.array(messages, dtype=np.int64), rest

    def _message(self, cls: int, work: Send | Receive) -> int:
        """The number of what is known of a message, whatever its tag."""
        key = (cls, work.n_bytes, work.offset, work.stream) if isinstance(work, Send) else (cls,)
        number = self._messages.get(key)
        if number is None:
            number = self._messages[key] = self._known(self._know(cls, "", work))
        return number

    def _template(self, cls: int, stamp: Stamp, works: dict[int, _Known]) -> _Template:
        known, after, shared = [], [], []
        lead = 0  # of the host: it begins a pass when the NPU does, as a message or a batch comes
        for place, operator in enumerate(stamp.operators):
            entry = works.get(id(operator.work))
            if entry is None:
                entry = self._know(cls, stamp.prefix + operator.name, operator.work)
                works[id(operator.work)] = entry
            if self._cluster.npu.host:
                entry, lead = self._issued(entry, operator.work, lead)
            known.append(self._known(entry))
            after += [(place, before) for before in operator.after]
            if self._is_shared(cls, operator.work):
                shared.append((place, operator.work))
        pairs = np.array(after, dtype=np.int64).reshape(-1, 2)
        return _Template(np.array(known, dtype=np.int64), pairs, shared)

    def _issued(self, known: _Known, work: Work, lead: int) -> tuple[_Known, int]:
        """What is known of a node that the host issues with a ``lead``, and the lead after it.

        A collective is a kernel to issue; how long it takes depends on the network, and is no lead.
        """
        npu = self._cluster.npu
        if isinstance(work, Compute) and not work.on_host:
            duration, lead = npu.issued(work, lead)
            return known._replace(duration=duration), lead
        return known, lead - npu.host * isinstance(work, Collective)

    def _is_shared(self, cls: int, work: Work) -> bool:
        if isinstance(work, Collective):
            return len(self._folding.members[cls][work.group]) > 1
        return isinstance(work, (Send, Receive))

    def _share(self, cls: int, node: int, work: Work) -> None:
        """Note a node whose flow others take part in."""
        if isinstance(work, Collective):
            self._met.append((node, cls, work.group))
        elif isinstance(work, (Send, Receive)):
            ends = self._sends if isinstance(work, Send) else self._receives
            key = _Transfer(cls, self._modulo(work.offset), work.tag)
            ends.setdefault(key, []).append(node)

    def _meet(self, issued: NDArray[np.int64]) -> dict[_Meeting, list[int]]:
        """Who takes part in each collective of several classes: members count theirs as issued."""
        place = np.empty(len(issued), dtype=np.int64)
        place[issued] = np.arange(len(issued))
        meetings: dict[_Meeting, list[int]] = {}
        seen: Counter[tuple[int, str]] = Counter()
        for node, cls, group in sorted(self._met, key=lambda met: place[met[0]]):
            members = self._folding.members[cls][group]
            meeting = _Meeting(group, members, seen[cls, group])
            meetings.setdefault(meeting, []).append(node)
            seen[cls, group] += 1
        return meetings

    def _flows(self) -> NDArray[np.int64]:
        """The flow of every node, -1 for none.  Sets what is known of the flows."""
        opens = np.array([known.opens for known in self._known], dtype=bool)[self._what]
        opens[[nodes[0] for nodes in self._meetings.values()]] = True
        flow = np.where(opens, np.cumsum(opens) - 1, -1)
        for nodes in self._meetings.values():
            flow[nodes] = flow[nodes[0]]
        inside = np.flatnonzero(flow >= 0)
        self.members = inside[np.argsort(flow[inside], kind="stable")]  # nodes, flow by flow
        self.n_members = np.bincount(flow[inside], minlength=int(opens.sum()))
        self.flow_form = self.column("form")[opens]
        groups = np.array([known.group for known in self._known], dtype=object)
        self.flow_group: list[str] = groups[self._what[opens]].tolist()
        self.receiver = np.full(len(self.n_members), -1)
        return flow

    def _check_complete(self) -> None:
        """Every member of a group must run as many collectives over it as the others, and the
        same."""
        cls, form = self.column("cls"), self.column("form")
        for (group, classes, number), nodes in self._meetings.items():
            first = nodes[0]
            for node in nodes[1:]:
                if form[node] != form[first]:
                    raise DimsweepError(
                        f"members of group {group!r} disagree on its collective number {number}: "
                        f"rank {self._folding.first[cls[first]]} runs {self.name[first]!r}, rank "
                        f"{self._folding.first[cls[node]]} runs {self.name[node]!r}",
                        where="workload",
                        hint="kind, size and priority must be the same on all members",
                    )
            absent = sorted(set(classes) - set(cls[nodes].tolist()))
            if absent:
                raise DimsweepError(
                    f"rank {self._folding.first[cls[first]]} waits in {self.name[first]!r} for "
                    f"rank {self._folding.first[absent[0]]}, which never runs collective number "
                    f"{number} of group {group!r}",
                    where="workload",
                )

    def _taken(
        self, n: int, issued: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Each node's stream, and the streams' names: collectives take ``n`` streams in turn."""
        stream, names = self.column("stream"), list(self.streams)
        of = issued[self.column("kind")[issued] == p.NodeKind.COLLECTIVE]
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

    def _queued(self) -> NDArray[np.int64]:
        """The stream of each node on which collectives run, among those of all classes; else -1."""
        stream = self.column("cls") * (1 + len(self.stream_names)) + self.stream
        collective = self.column("kind") == p.NodeKind.COLLECTIVE
        queues = np.isin(stream, np.unique(stream[collective])) & (self.stream != p.NO_STREAM)
        return np.where(queues, stream, -1)

    def column(self, name: str) -> NDArray[np.int64]:
        """A field of what is known of each node: cls, kind, stream, tally, duration,
        memory or service."""
        values = np.array([getattr(known, name) for known in self._known], dtype=np.int64)
        return values[self._what]

    def _know(self, cls: int, name: str, work: Work) -> _Known:
        if isinstance(work, Compute) and work.on_host:
            stream, (duration, _) = 1 + self.streams(HOST), self._compute(name, work)
            return _Known(cls, p.NodeKind.HOST, stream, p.NO_TALLY, duration, 0)
        if isinstance(work, Compute):
            return _Known(cls, p.NodeKind.COMPUTE, 0, p.NO_TALLY, *self._compute(name, work))
        if isinstance(work, Access):
            stream, tally = 1 + self.streams(MEMORY), self.tallies("memory")
            duration, service = self._access(cls, name, work)
            access = _Known(cls, p.NodeKind.ACCESS, stream, tally, duration, duration)
            return access._replace(service=service)
        if isinstance(work, Collective):
            stream = 1 + self.streams(work.stream or work.group)
            tally = self.tallies(f"{work.kind} {work.group}")
            form = self._forms.collective(work, self._workload.groups[work.group])
            classes = self._folding.members[cls][work.group]
            kind = p.NodeKind.COLLECTIVE
            return _Known(cls, kind, stream, tally, 0, 0, form, work.group, classes)
        if isinstance(work, Send):
            stream, tally = 1 + self.streams(work.stream), self.tallies("send")
            form = self._forms.transfer(work, self._folding.graph[cls])
            return _Known(cls, p.NodeKind.SEND, stream, tally, 0, 0, form)
        return _Known(cls, p.NodeKind.RECEIVE, p.NO_STREAM, self.tallies("receive"), 0, 0)

    def _compute(self, name: str, work: Compute) -> tuple[int, int]:
        """Picoseconds, and those of them that memory bandwidth sets."""
        npu = self._cluster.npu
        with _operator(name):
            return npu.duration(work), npu.memory_bound(work)

    def _access(self, cls: int, name: str, work: Access) -> tuple[int, int]:
        """The least picoseconds that it lasts, and its service."""
        if self._cluster.memory is None:
            raise DimsweepError(
                f"operator {name!r} uses remote memory, and there is none", where="memory"
            )
        with _operator(name):
            least, served = self._servers.access(work, cls)
        return least, p.NO_SERVICE if served is None else self.services(served)

    def accesses(self) -> p.Table:
        """The accesses that a wafer's I/O controllers carry, an ACCESS each."""
        if self._cluster.network.wafer is None or not isinstance(self._cluster.memory, EdgeIo):
            return NO_ACCESSES
        groups = {name: number for number, name in enumerate(self._workload.groups)}
        found = []
        for node in np.flatnonzero(self.column("kind") == p.NodeKind.ACCESS).tolist():
            work = self.name.operator(node).work
            assert isinstance(work, Access)
            group = groups[work.group] if work.shared else NOT_SHARED
            found.append((node, group, work.n_bytes, work.store))
        return np.array(found, dtype=ACCESS)

    def match_transfers(self) -> None:
        """Give every send its receive: the k-th with the same peer and tag, on both sides."""
        for key, sends in self._sends.items():
            peer = self._folding.peers[key.cls][key.offset]
            there = _Transfer(peer, back(key.offset, self._sizes), key.tag)
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
