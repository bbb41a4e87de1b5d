"""Lints the traces of a job: each trace by itself, and all of them against one another.

Ranks issue their nodes in ASTRA-sim's order, the lowest id of those that are ready first.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from dimsweep.engine.collector import no_collector
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import own
from dimsweep.engine.formats.chakra.files import Scanned
from dimsweep.engine.formats.chakra.groups import MOST_RANKS, groups_text, noted_groups
from dimsweep.engine.formats.chakra.lint.collectives import Collectives
from dimsweep.engine.formats.chakra.lint.deadlocks import Deadlocks
from dimsweep.engine.formats.chakra.lint.messages import Fault, Messages, Place
from dimsweep.engine.formats.chakra.lint.trace import Finding, lint_trace
from dimsweep.engine.formats.chakra.node import COMMUNICATION, Node, node_of
from dimsweep.engine.formats.chakra.order import issue_order
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType, TraceNode, Value


@no_collector()
def lint_job(
    scanned: Sequence[Scanned], groups: Mapping[str, Sequence[int]], *, alone: bool = False
) -> list[Finding]:
    """Findings of all that is wrong with the traces of ranks 0, 1, ...

    ``groups`` are the ranks of each communicator group.  ``alone``: there is one trace, for one
    rank or for all, and no other to compare it with.  ``groups`` go before the groups in the
    traces.
    """
    texts = (map(groups_text, each.trace.nodes) for each in scanned)
    given = {name: tuple(ranks) for name, ranks in groups.items()}
    noted = noted_groups(texts, MOST_RANKS if alone else len(scanned), given)
    scanned = [
        each._replace(trace=replace(each.trace, nodes=noted.of_trace(i, each.trace.nodes)))
        for i, each in enumerate(scanned)
    ]
    groups = noted.ranks
    job = _Job(scanned, groups, alone=alone)
    graphs = chain.from_iterable(map(lint_trace, scanned))
    nodes = chain.from_iterable(map(job.add, range(len(scanned))))
    found = [*graphs, *nodes]
    return found if alone else [*found, *job.between_ranks(sound=not found)]


class _Job:
    """What ranks do together."""

    def __init__(
        self, scanned: Sequence[Scanned], groups: Mapping[str, Sequence[int]], *, alone: bool
    ) -> None:
        n = len(scanned)
        self._scanned = scanned
        self._messages = None if alone else Messages(n, self._where)
        sizes = _sizes(scanned)
        self._collectives = Collectives(groups, None if alone else n, sizes, self._where)
        self._read: dict[int, Node | Fault | None] = {}  # ranks have most nodes in common

    def _where(self, place: Place) -> str:
        rank, i = place
        node = self._scanned[rank].trace.nodes[i]
        return self._scanned[rank].places.of(i + 1, node.id, node.name)

    def add(self, rank: int) -> Iterator[Finding]:
        """Note what a rank communicates; yields findings of nodes that lack attributes."""
        nodes, read = self._scanned[rank].trace.nodes, self._read
        for i in issue_order(nodes):
            raw = nodes[i]
            key = id(raw)
            if key not in read:
                read[key] = _read(raw)
            node = read[key]
            if node is None:
                continue
            fault = self._note((rank, i), node) if isinstance(node, Node) else node
            if fault:
                yield Finding(self._where((rank, i)), *fault)

    def _note(self, place: Place, node: Node) -> Fault | None:
        if node.type is NodeType.COMM_COLL:
            return self._collectives.add(place, node, self._own(place, own.GROUP))
        return self._messages.add(place, node) if self._messages else None

    def between_ranks(self, *, sound: bool) -> Iterator[Finding]:
        """What no trace shows by itself; who waits for whom, if each is ``sound``, too."""
        found = [*(self._messages.findings() if self._messages else ())]
        found += self._collectives.disagreements()
        stuck = [*self._deadlocks()] if sound and not found else []
        # Whoever waits for ever does so one at a time, too.
        yield from (*found, *(stuck or self._collectives.crossed()))

    def _deadlocks(self) -> Iterator[Finding]:
        nodes = [scanned.trace.nodes for scanned in self._scanned]
        # A trace of ours may give a collective a stream of its own, beside its communicator's.
        turns = self._collectives.turns(lambda place: self._own(place, own.STREAM))
        pairs = self._messages.pairs() if self._messages else ()
        yield from Deadlocks(nodes, self._where).findings(turns, list(pairs))

    def _own(self, place: Place, attribute: str) -> Value:
        """Return an attribute that only a trace of ours has, or None."""
        rank, i = place
        return self._scanned[rank].trace.nodes[i].attributes.get(attribute)


def _read(raw: TraceNode) -> Node | Fault | None:
    """The node if it communicates, or a fault if its attributes are wrong; None for other nodes."""
    if raw.type < NodeType.COMP:
        return None
    try:
        node = node_of(raw)
    except DimsweepError as error:
        return f"{error.where.rpartition('.')[2]}: {error.what}", "write a number there"
    if raw.type not in COMMUNICATION:
        return None
    if node.lacks:
        return f"a {raw.type.name} node without {', '.join(node.lacks)}", "add it"
    if raw.type is NodeType.COMM_COLL and node.collective not in tuple(CollectiveType):
        known = ", ".join(f"{kind.value} ({kind.name})" for kind in CollectiveType)
        return f"comm_type: {node.collective} is no type of collective", f"one of {known}"
    return node


def _sizes(scanned: Sequence[Scanned]) -> tuple[int, ...] | None:
    """The sizes of the dimensions, if the traces say them and there are as many ranks."""
    said = scanned[0].trace.metadata.get(own.SIZES) if scanned else None
    sizes = tuple(n for n in said if isinstance(n, int)) if isinstance(said, tuple) else ()
    return sizes if sizes and math.prod(sizes) == len(scanned) else None
