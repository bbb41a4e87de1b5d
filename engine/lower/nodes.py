"""Nodes: one for each operator of each class of ranks; and flows, the transfers between nodes."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower import program as p
from dimsweep.engine.lower.fold import Folding
from dimsweep.engine.lower.forms import Forms, Interned
from dimsweep.engine.lower.issue import Waits, find_issue_order, find_turns
from dimsweep.engine.lower.memory import Served, Servers
from dimsweep.engine.lower.program import ACCESS, NO_ACCESSES, NOT_SHARED
from dimsweep.engine.topology.coordinates import Offset, reverse_offset, wrap_offset
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Graph,
    Operator,
    Receive,
    Section,
    Send,
    Stamp,
    Work,
    Workload,
    sections_of,
)

MEMORY = "memory"  # the stream of accesses to remote memory
HOST = "host"  # that of what the host does


# A node that sends or receives, what it is matched by, and in a section how far tags of the next
# time are apart from these; the offset is one of all offsets modulo the sizes, by number.
MESSAGE = np.dtype([("node", "i8"), ("cls", "i8"), ("offset", "i8"), ("tag", "i8"), ("by", "i8")])
# A node of a collective of several classes; ``members`` are their numbers.
MET = np.dtype([("node", "i8"), ("cls", "i8"), ("group", "i8"), ("members", "i8")])


_NOBODY = {dtype: np.zeros(0, dtype=dtype) for dtype in (MESSAGE, MET)}
_Row = tuple[int, ...]
_Integer = TypeVar("_Integer", bound=np.integer)


class _Meetings(NamedTuple):
    """The matching of nodes that run the same collective, for collectives between several classes.

    Rows are in the order of issue. Row ``i`` takes part in collective ``meeting[i]``, and row
    ``first[j]`` is the first of collective ``j``.
    """

    met: p.Table  # MET
    number: NDArray[np.int64]  # of the collective, among the collectives of its class and group
    meeting: NDArray[np.int64]
    first: NDArray[np.int64]


class _Known(NamedTuple):
    """The properties of a class's operator that do not depend on its place in the graph."""

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
        """True if every node with these properties has a separate flow."""
        return self.kind == p.NodeKind.SEND or len(self.classes) == 1

    @property
    def felt(self) -> p.Lookahead:
        """Lookahead of a node with these properties, if its flow does not involve other classes."""
        if self.kind == p.NodeKind.RECEIVE or self.service != p.NO_SERVICE:
            return p.Lookahead.NONE
        return p.Lookahead.UNTIL_END if self.kind == p.NodeKind.SEND else p.Lookahead.FULL


class _Template(NamedTuple):
    """The operators of a stamp as run by one class, as columns; places count from its first one."""

    known: p.Ints  # row of known properties
    after: NDArray[np.int64]  # (E, 2): who waits, and for whom
    shared: list[tuple[int, Work]]  # those whose flows others take part in


class _Part(NamedTuple):
    """The operators of a section as run by one class, in its first repetition, as nodes.

    ``sends``, ``receives`` and ``met`` (collectives between several classes) list the nodes of all
    repetitions.
    """

    section: Section
    known: p.Ints
    after: NDArray[np.int64]
    sends: p.Table  # MESSAGE
    receives: p.Table  # MESSAGE
    met: p.Table  # MET


@contextmanager
def _operator(name: str) -> Iterator[None]:
    """Add the operator's name to errors raised within the context."""
    try:
        yield
    except DimsweepError as error:
        raise error.replace(problem=f"operator {name!r}: {error.problem}") from None


class NodeNames(Sequence[str]):
    """The operator name of every node, looked up when it is needed."""

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
        """Return the operator that node number ``node`` runs."""
        cls = int(np.searchsorted(self.start, node, side="right")) - 1
        return self._graphs[cls][node - int(self.start[cls])]


class Nodes:
    """Columns of all nodes (operators of each class), and the flows between them.

    Repeated sections of a graph are read once and then copied, column by column.
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
        self._npus, self.n_classes = cluster.npus.kinds, len(folding.graph)
        self.streams: Interned[str] = Interned()  # before collectives take several in turn
        # The first after the one that computes: all of these time what they run.
        if cluster.memory is not None:
            self.streams(MEMORY)
        for work in workload.works():
            if isinstance(work, Compute) and work.on_host:
                self.streams(work.stream or HOST)
        self.n_timed = 1 + len(self.streams)
        self.tallies: Interned[str] = Interned()
        self.services: Interned[Served] = Interned()
        self._known: Interned[_Known] = Interned()
        # What computing takes, by NPU and work, each by identity: many classes have the same ones.
        self._computed: dict[tuple[int, int], tuple[int, int]] = {}
        self._led: dict[tuple[int, int, int], tuple[int, int]] = {}  # and by the host's lead
        # Offsets of messages, groups and classes of collectives, and collectives' names, by number.
        self._offsets: Interned[Offset] = Interned()
        self._groups: Interned[str] = Interned()
        self._members: Interned[tuple[int, ...]] = Interned()
        graphs = [workload.graphs[graph] for graph in folding.graph]
        self.name = NodeNames(graphs)
        parts = list(itertools.chain.from_iterable(map(self._parts, range(len(graphs)), graphs)))
        self._sends, self._receives, met = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("sends", "receives", "met")
        )
        self._what, self.waits = self._list_nodes(parts)
        self.key = self._keys()
        nodes = np.arange(len(self._what), dtype=np.int32)
        issued = nodes if workload.is_sorted else find_issue_order(self.waits)
        self.stream, self.stream_names = self._assign_streams(cluster.collectives.streams, issued)
        # Nodes take turns on the streams that run collectives.
        on = {(each.cls, each.stream) for each in self._known if each.kind == p.NodeKind.COLLECTIVE}
        queued = np.array([(each.cls, each.stream) in on for each in self._known], dtype=bool)
        stream = np.where(queued[self._what], self.stream, np.int32(p.NO_STREAM))
        self.turn = find_turns(self.waits, stream, issued)
        self._meetings = self._number_meetings(met, issued)
        self._check_complete()
        self.flow = self._number_flows()

    def _keys(self) -> p.Ints:
        """Return each node's position among all nodes, sorted by place in the graph, then by graph.

        With it, all ranks order simultaneous events equally, though each may have a separate graph.
        """
        n, lengths = len(self._workload.graphs), np.diff(self.name.start).tolist()
        fits = n * max(lengths, default=0) <= np.iinfo(np.int32).max  # as wide as tables have it
        of_class = zip(self._folding.graph, lengths, strict=True)
        key = np.concatenate(
            [
                np.arange(graph, length * n + graph, n, dtype=np.int32 if fits else np.int64)
                for graph, length in of_class
            ]
        )
        return key if fits else np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int32)

    def _parts(self, cls: int, graph: Graph) -> Iterator[_Part]:
        """Yield the nodes of class ``cls``, which runs ``graph``, section by section."""
        templates: dict[int, _Template] = {}
        works: dict[int, tuple[_Known, bool]] = {}  # by identity: graphs share works, too
        for section in sections_of(graph):
            for stamp in section.stamps:
                if id(stamp.operators) not in templates:
                    templates[id(stamp.operators)] = self._build_template(cls, stamp, works)
            yield self._build_part(cls, section, templates)

    def _build_part(self, cls: int, section: Section, templates: dict[int, _Template]) -> _Part:
        """Return the nodes of a section on class ``cls``; ``templates`` hold its operators."""
        base = int(self.name.start[cls])
        known, after, outside = [], [], list[tuple[int, int]]()
        sends, receives, met = list[_Row](), list[_Row](), list[_Row]()
        for stamp in section.stamps:
            template, start = templates[id(stamp.operators)], base + stamp.start
            known.append(template.known)
            after.append(template.after + start)
            for place, before in stamp.outside:
                outside += [(start + place, base + each) for each in before]
            for place, work in template.shared:
                if isinstance(work, Collective):
                    members = self._members(self._folding.members[cls][work.group])
                    met.append((start + place, cls, self._groups(work.group), members))
                elif isinstance(work, (Send, Receive)):
                    offset = self._offsets(wrap_offset(work.offset, self._sizes))
                    tag, by = work.tag + stamp.number * stamp.tags, section.step * stamp.tags
                    message = (start + place, cls, offset, tag, by)
                    (sends if isinstance(work, Send) else receives).append(message)
        if outside:
            after.append(np.array(outside, dtype=np.int64))
        return _Part(
            section,
            _concatenate(known),
            _concatenate(after),
            _repeated_rows(sends, MESSAGE, section),
            _repeated_rows(receives, MESSAGE, section),
            _repeated_rows(met, MET, section),
        )

    def _list_nodes(self, parts: Sequence[_Part]) -> tuple[NDArray[np.intp], Waits]:
        """Return the index of each node's properties, and its dependencies, for all repetitions."""
        known, after = (
            _concatenate([getattr(part, name) for part in parts]) for name in ("known", "after")
        )
        times, every = np.array([(s.times, s.period) for s, *_ in parts]).T
        # Nodes of the first repetitions only, part after part, instead of all.
        skipped = np.cumsum((times - 1) * every) - (times - 1) * every
        after[:, 0] -= np.repeat(skipped, [len(part.after) for part in parts])
        once = Waits.from_pairs(after, len(known))
        if times.max() == 1:
            return known.astype(np.intp), once
        what = np.empty(len(self.name), dtype=np.intp)
        counts, own = np.empty(len(what), np.int32), once.counts
        before = np.empty(sum(part.section.times * len(part.after) for part in parts), np.int32)
        node = wait = first = first_wait = 0
        for section, _, pairs, *_ in parts:
            shape, last = (section.times, section.period), first + section.period
            end = node + section.times * section.period
            what[node:end].reshape(shape)[:] = known[first:last]
            counts[node:end].reshape(shape)[:] = own[first:last]
            node, first = end, last
            last, end = first_wait + len(pairs), wait + section.times * len(pairs)
            by = np.arange(section.times, dtype=np.int32)[:, None] * section.period
            out = before[wait:end].reshape(section.times, len(pairs))
            np.add(by, once.before[first_wait:last], out=out)
            wait, first_wait = end, last
        return what, Waits(p.starts(counts), before)

    def _build_template(
        self, cls: int, stamp: Stamp, works: dict[int, tuple[_Known, bool]]
    ) -> _Template:
        known, after, shared = [], [], []
        host = self._npu(cls).host
        lead = 0  # of the host: it begins a pass when the NPU does, as a message or a batch comes
        for place, operator in enumerate(stamp.operators):
            work = operator.work
            if id(work) not in works:
                entry = self._find_known(cls, stamp.name(place), work)
                works[id(work)] = entry, self._is_shared(cls, work)
            entry, is_shared = works[id(work)]
            if host:
                entry, lead = self._find_issued(cls, entry, work, lead)
            known.append(self._known(entry))
            after += [(place, before) for before in operator.after]
            if is_shared:
                shared.append((place, work))
        pairs = np.array(after, dtype=np.int64).reshape(-1, 2)
        return _Template(np.array(known, dtype=np.int32), pairs, shared)

    def _npu(self, cls: int) -> Npu:
        kinds = self._folding.npu
        return self._npus[0 if kinds is None else kinds[cls]]

    def _find_issued(self, cls: int, known: _Known, work: Work, lead: int) -> tuple[_Known, int]:
        """Return ``known`` with the duration (ps) for the host's ``lead``, and the next lead.

        The lead is how far (ps) the host's kernel launches are ahead of the NPU. A collective is
        one kernel to launch; its time depends on the network, and adds nothing to the lead.
        """
        npu = self._npu(cls)
        if isinstance(work, Compute) and not work.on_host:
            at = id(npu), id(work), lead
            if at not in self._led:
                self._led[at] = npu.issued_duration(work, lead)
            duration, lead = self._led[at]
            return known._replace(duration=duration), lead
        return known, lead - npu.host * isinstance(work, Collective)

    def _is_shared(self, cls: int, work: Work) -> bool:
        if isinstance(work, Collective):
            return len(self._folding.members[cls][work.group]) > 1
        return isinstance(work, (Send, Receive))

    def _number_meetings(self, met: p.Table, issued: p.Ints) -> _Meetings:
        """Match the members of each collective: its k-th call over a group on each class.

        ``met`` lists nodes of collectives between classes, and ``issued`` all nodes in issue order.
        """
        if not len(met):
            return _Meetings(met, *(np.zeros(0, dtype=np.int64) for _ in range(3)))
        place = np.empty(len(issued), dtype=np.int64)
        place[issued] = np.arange(len(issued))
        met = met[np.argsort(place[met["node"]], kind="stable")]
        own = met["cls"] * len(self._groups) + met["group"]
        number = _count_earlier_equals(own)
        keys = np.stack([met["group"], met["members"], number], axis=1)
        _, first, meeting = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return _Meetings(met, number, meeting.reshape(-1), first)

    def _number_flows(self) -> p.Ints:
        """Return the flow number of every node, or NO_FLOW, and fill the columns of all flows."""
        opens = np.array([known.opens for known in self._known], dtype=bool)[self._what]
        met, _, meeting, first = self._meetings
        opens[met["node"][first]] = True
        opened = np.flatnonzero(opens)
        flow = np.full(len(opens), p.NO_FLOW, dtype=np.int32)
        flow[opened] = np.arange(len(opened))
        flow[met["node"]] = flow[met["node"][first]][meeting]
        self.members, self.n_members = opened, np.ones(len(opened), dtype=np.int64)
        if len(met):
            inside = np.flatnonzero(flow != p.NO_FLOW)
            self.members = inside[np.argsort(flow[inside], kind="stable")]  # nodes, flow by flow
            self.n_members = np.bincount(flow[inside], minlength=len(opened))
        self.flow_form = self.column("form", opened)
        groups = np.array([known.group for known in self._known], dtype=object)
        self.flow_group: list[str] = groups[self._what[opened]].tolist()
        self.receiver = np.full(len(opened), p.NO_NODE)
        return flow

    def _check_complete(self) -> None:
        """Raise an error unless all members of a group run the same collectives over it."""
        met, _, meeting, first = self._meetings
        if not len(met):
            return
        form = self.column("form")[met["node"]]
        expected = np.array([len(members) for members in self._members], dtype=np.int64)
        unlike = form != form[first][meeting]
        wrong = np.bincount(meeting, minlength=len(first)) < expected[met["members"][first]]
        wrong[meeting[unlike]] = True
        if wrong.any():
            number = np.flatnonzero(wrong)[first[wrong].argmin()]
            others = np.flatnonzero((meeting == number) & unlike).tolist()
            raise self._missing_member_error(int(first[number]), others[0] if others else None)

    def _missing_member_error(self, first: int, unlike: int | None) -> DimsweepError:
        """Return the error for a collective whose members disagree or are missing.

        ``first`` is the row of its first member, ``unlike`` the row of a member with a different
        collective, if any.
        """
        met, numbers, meeting, _ = self._meetings
        node, cls, group, members = met[first].tolist()
        what, name = f"collective number {numbers[first]}", list(self._groups)[group]
        here = f"rank {self._folding.first[cls]}"
        if unlike is not None:
            other = met[unlike]
            return DimsweepError(
                f"members of group {name!r} disagree on its {what}: {here} runs "
                f"{self.name[node]!r}, rank {self._folding.first[other['cls']]} runs "
                f"{self.name[int(other['node'])]!r}",
                where="workload",
                hint="kind, size and priority must be equal on all members",
                code="mismatch",
            )
        there = met["cls"][meeting == meeting[first]].tolist()
        absent = min({*list(self._members)[members]} - {*there})
        return DimsweepError(
            f"{here} waits in {self.name[node]!r} for rank {self._folding.first[absent]}, which "
            f"never runs {what} of group {name!r}",
            where="workload",
            code="stalled",
        )

    def _assign_streams(self, n: int, issued: p.Ints) -> tuple[p.Ints, tuple[str, ...]]:
        """Return each node's stream, numbered over all classes, and the names of a class's streams.

        Collectives that would share a stream take ``n`` streams in turn.
        """
        names, stream, moved = list(self.streams), self._field("stream"), []
        if n > 1:
            of = issued[self.column("kind", issued) == p.NodeKind.COLLECTIVE]
            own = self.column("stream", of)
            turn = _count_earlier_equals(self.column("cls", of) * len(names) + own) % n
            taken = np.unique(np.stack([turn, own], axis=1), axis=0)
            for again, base in taken[taken[:, 0] > 0].tolist():
                moved.append((of[(turn == again) & (own == base)], 1 + len(names) - base))
                names.append(f"{names[base - 1]} {again + 1}")
        among_all = stream + self._field("cls") * (1 + len(names))
        every = np.where(stream == p.NO_STREAM, p.NO_STREAM, among_all)[self._what]
        for nodes, by in moved:
            every[nodes] += by
        return every, tuple(names)

    def column(self, name: str, nodes: NDArray[np.integer] | None = None) -> p.Ints:
        """Return one property, such as ``cls`` or ``kind``, of the given nodes, or of all nodes."""
        return self._field(name)[self._what if nodes is None else self._what[nodes]]

    def _field(self, name: str) -> p.Ints:
        return np.array([getattr(known, name) for known in self._known], dtype=np.int32)

    def rows(self, table: p.Table, some: slice) -> None:
        """Write the properties of nodes ``some`` into the same rows of ``table``, of type NODE."""
        np.take(self._known_rows, self._what[some], out=table[some], mode="clip")

    @cached_property
    def _known_rows(self) -> p.Table:
        rows = np.zeros(len(self._known), p.NODE)
        for name in ("kind", "cls", "tally", "duration", "memory", "service"):
            rows[name] = [getattr(known, name) for known in self._known]
        return rows

    def _find_known(self, cls: int, name: str, work: Work) -> _Known:
        if isinstance(work, Compute) and work.on_host:
            stream = 1 + self.streams(work.stream or HOST)
            duration, _ = self._compute_time(cls, name, work)
            return _Known(cls, p.NodeKind.HOST, stream, p.NO_TALLY, duration, 0)
        if isinstance(work, Compute):
            return _Known(
                cls, p.NodeKind.COMPUTE, 0, p.NO_TALLY, *self._compute_time(cls, name, work)
            )
        if isinstance(work, Access):
            stream, tally = 1 + self.streams(MEMORY), self.tallies("memory")
            if self._cluster.memory is None:
                problem = f"operator {name!r} uses remote memory, and the cluster has none"
                raise DimsweepError(problem, where="memory", code="missing")
            with _operator(name):
                least, served = self._servers.access(work, cls)
            duration, service = least, p.NO_SERVICE if served is None else self.services(served)
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

    def _compute_time(self, cls: int, name: str, work: Compute) -> tuple[int, int]:
        """Return the duration (ps) of ``work`` on class ``cls``, and its memory-bound part (ps)."""
        npu = self._npu(cls)
        at = id(npu), id(work)
        if at not in self._computed:
            with _operator(name):
                self._computed[at] = npu.duration(work), npu.memory_bound_time(work)
        return self._computed[at]

    def accesses(self) -> p.Table:
        """Return the accesses through an interconnect's I/O controllers, as rows of ACCESS."""
        if self._cluster.network.interconnect is None or not isinstance(
            self._cluster.memory, EdgeIo
        ):
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
        """Match the k-th send with the k-th receive of the same peer and tag."""
        offsets, sends, receives = list(self._offsets), self._sends, self._receives
        if not len(sends) + len(receives):
            return
        pairs = np.stack([sends["cls"], sends["offset"]], axis=1)
        ways, way = np.unique(pairs, axis=0, return_inverse=True)
        peers = [self._folding.peers[cls][offsets[number]] for cls, number in ways.tolist()]
        backs = [self._offsets(reverse_offset(offset, self._sizes)) for offset in offsets]
        peer = np.array(peers, dtype=np.int64)[way.reshape(-1)]
        there = np.array(backs, dtype=np.int64)[sends["offset"]]
        wanted = np.stack([peer, there, sends["tag"]], axis=1)
        given = np.stack([receives[name] for name in ("cls", "offset", "tag")], axis=1)
        here, far = np.lexsort(wanted.T), np.lexsort(given.T)
        if not np.array_equal(wanted[here], given[far]):
            raise self._unmatched_error(wanted, given)
        send, receive = sends["node"][here], receives["node"][far]
        self.receiver[self.flow[send]] = receive
        self.flow[receive] = self.flow[send]

    def _unmatched_error(
        self, wanted: NDArray[np.int64], given: NDArray[np.int64]
    ) -> DimsweepError:
        """Return the error for a send without a receive, or a receive without a send.

        ``wanted`` has a row (class, offset, tag) for each send, ``given`` one for each receive.
        """
        n, first = len(wanted), self._folding.first
        key = np.unique(np.concatenate([wanted, given]), axis=0, return_inverse=True)[1].reshape(-1)
        sent, received = (np.bincount(own, minlength=len(key)) for own in (key[:n], key[n:]))
        wrong = sent[key] != received[key]
        if wrong[:n].any():
            i = int(wrong[:n].argmax())
            _, cls, _, tag, _ = self._sends[i].tolist()
            return DimsweepError(
                f"rank {first[cls]} sends {sent[key[i]]} messages with tag {tag} (the first is "
                f"{self.name[int(self._sends['node'][i])]!r}) to ranks like rank "
                f"{first[wanted[i, 0]]}, which receive {received[key[i]]}",
                where="workload",
                code="mismatch",
            )
        node, cls, _, tag, _ = self._receives[int(wrong[n:].argmax())].tolist()
        return DimsweepError(
            f"rank {first[cls]} waits in {self.name[node]!r} (tag {tag}) for a message that no "
            "rank sends",
            where="workload",
            code="stalled",
        )


def _count_earlier_equals(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each key, the number of equal keys before it."""
    order = np.argsort(keys, kind="stable")
    turn = np.empty(len(keys), dtype=np.int64)
    turn[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return turn


def _concatenate(arrays: list[NDArray[_Integer]]) -> NDArray[_Integer]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _repeated_rows(rows: list[_Row], dtype: np.dtype[np.void], section: Section) -> p.Table:
    """Return ``rows``, of a section's first repetition, for all its repetitions."""
    if section.times == 1 or not rows:
        return np.array(rows, dtype=dtype) if rows else _NOBODY[dtype]
    found = np.tile(np.array(rows, dtype=dtype), section.times)
    time = np.repeat(np.arange(section.times), len(rows))
    found["node"] += time * section.period
    if dtype is MESSAGE:
        found["tag"] += time * found["by"]
    return found
