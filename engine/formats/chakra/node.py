"""A trace's nodes with the attributes that simulators read: numbers, groups, collectives.

Traces name communicator groups, which are in a file, ``{"1": [0, 1, ...], ...}``, or in the traces.

PyTorch records its process groups in a METADATA node ``process_group:init``, whose inputs Chakra's
converter keeps as text: ``["[{"pg_name": "1", "ranks": [0, 1]}, ...]"]``.  ASTRA-sim reads them
there, too.  An empty list of ranks is the group of all.

The native model has four kinds of collectives, which its algorithms run in every dimension.  Each
other type is simulated as the kind that sends the same number of bytes through the ports.  With
``s`` comm_size and ``p`` members:

==================== ========================== ================================================
type                 simulated as               why
==================== ========================== ================================================
BROADCAST            all-gather of s/(p-1)      A pipelined chain sends every byte through every
                                                port once: s/b, and the algorithm's steps.
REDUCE               reduce-scatter of sp/(p-1) The same backwards; a member reduces s.
GATHER               all-gather of s            The root receives s(p-1).
SCATTER              all-gather of s/p          The same backwards; s is all that the root has.
REDUCE_SCATTER_BLOCK reduce-scatter of s        It is one, with equal blocks.
BARRIER              all-reduce of nothing      Latency alone; PyTorch's barrier over NCCL is an
                                                all-reduce of one element.
==================== ========================== ================================================

Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and
experience" (2007), give s/b as the least time of a broadcast and of a reduction, s(p-1)/(pb) as
that of gathering and scattering s bytes in all, and the pairs that mirror each other.  NCCL's
broadcast and reduction are pipelined chains, for which nccl-tests reckons s/b.  (The scatter and
all-gather of Thakur, Rabenseifner and Gropp, 2005, take up to twice as long.)  The place of
the root does not matter: all members take part for the whole time.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count, zip_longest
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, StrictInt

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType, TraceNode
from dimsweep.engine.formats.reading import read_json, validated
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import Group

MOST_RANKS = 2**31  # ranks that a group may name, if the number of ranks is unknown
_INIT = "process_group:init"
_LISTED = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)


class _Group(BaseModel):
    pg_name: str | int
    ranks: list[StrictInt] = []


def read_groups(path: Path | None, n_npus: int) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group, in file order; without a file, no groups.

    Raises :class:`DimsweepError` naming file and group.
    """
    if path is None:
        return {}
    groups = validated(dict[str, tuple[StrictInt, ...]], read_json(path), path)
    for name, ranks in groups.items():
        _check(ranks, n_npus, f"{path}: {name}")
    return groups


def _check(ranks: tuple[int, ...], n_npus: int, where: str) -> None:
    known = all(0 <= rank < n_npus for rank in ranks)
    if not ranks or len(set(ranks)) < len(ranks) or not known:
        raise DimsweepError(
            f"{ranks!r} is not a list of different ranks below {n_npus}",
            where=where,
            code="out-of-range",
        )


def groups_text(node: TraceNode) -> str:
    """Return the JSON text of the process groups that a node records, or ""."""
    has_groups = node.type is NodeType.METADATA and _INIT in node.name and node.inputs
    return node.inputs.values if has_groups and node.inputs else ""


class RecordedGroups(NamedTuple):
    """The process groups that traces record: the ranks of each, by unique names.

    PyTorch may use one name for different groups on different ranks.
    """

    ranks: Mapping[str, tuple[int, ...]]  # by group
    names: Sequence[Mapping[str, str]]  # by trace: the group of each recorded name

    def rename_groups(self, i: int, nodes: tuple[TraceNode, ...]) -> tuple[TraceNode, ...]:
        """Return the nodes of trace ``i`` with the names of :attr:`ranks` in ``pg_name``."""
        changed = {name: group for name, group in self.names[i].items() if name != group}
        if not changed:
            return nodes
        return tuple(
            node._replace(attributes={**node.attributes, "pg_name": changed[name]})
            if (name := str(node.attributes.get("pg_name"))) in changed
            else node
            for node in nodes
        )


def recorded_groups(
    texts: Iterable[Iterable[str]], n_npus: int, given: Mapping[str, tuple[int, ...]]
) -> RecordedGroups:
    """Return the groups that are listed in the ``texts`` of each trace (see :func:`groups_text`).

    ``given`` groups have precedence.  Raises :class:`DimsweepError` for a text that lists no
    groups.
    """
    groups = dict(given)
    names: list[Mapping[str, str]] = []
    for own in texts:
        mine: dict[str, str] = {}
        for text in filter(None, own):
            for name, members in _listed(text, n_npus):
                if name in given or (not members and n_npus == MOST_RANKS):
                    continue  # of a single trace, whose job has an unknown number of ranks
                mine[name] = _unique(name, members or tuple(range(n_npus)), groups)
        names.append(mine)
    return RecordedGroups(groups, names)


def _unique(name: str, ranks: tuple[int, ...], groups: dict[str, tuple[int, ...]]) -> str:
    """Return the name of the group of ``ranks`` in ``groups``; add the group if it is missing."""
    for number in count(1):
        key = name if number == 1 else f"{name} ({number})"
        if groups.setdefault(key, ranks) == ranks:
            return key
    raise AssertionError


@lru_cache
def _listed(text: str, n_npus: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the ranks of each group that ``text`` lists."""
    where = f"METADATA node {_INIT}"
    found = _LISTED.search(text)
    try:
        content = json.loads(found[0].replace('\\"', '"')) if found else []
    except (ValueError, RecursionError) as error:
        raise DimsweepError(
            f"invalid list of groups: {error}", where=where, code="bad-syntax"
        ) from error
    groups = validated(list[_Group], content, where)
    for group in groups:
        if group.ranks:
            _check(tuple(group.ranks), n_npus, f"{where}: {group.pg_name}")
    return [(str(group.pg_name), tuple(group.ranks)) for group in groups]


# The native collectives; Chakra uses the same names.
KINDS: Mapping[int, CollectiveKind] = {CollectiveType[kind.name]: kind for kind in CollectiveKind}
COMMUNICATION = (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
_NEEDED = {
    NodeType.COMM_COLL: ("comm_type", "comm_size"),
    NodeType.COMM_SEND: ("comm_size", "comm_dst"),
    NodeType.COMM_RECV: ("comm_size", "comm_src"),
}


class Node(NamedTuple):
    """A trace's node with the attributes that affect its time: sizes in bytes, durations in ns."""

    id: int
    name: str
    type: NodeType
    dependencies: tuple[int, ...]
    duration: int  # ns, as recorded
    on_cpu: bool
    ops: int
    tensor: int
    collective: int
    size: int
    priority: int
    source: int
    target: int
    tag: int
    group: str
    involved: tuple[bool, ...]
    lacks: tuple[str, ...] = ()  # missing attributes that a communication needs
    groups: str = ""  # text of the process groups that the node records


def involved_group(involved: Sequence[bool], sizes: Sequence[int]) -> Group:
    """Return the group that spans the dimensions in ``involved_dim``; missing entries are True."""
    used = zip_longest(involved[: len(sizes)], sizes, fillvalue=True)
    return Group(tuple(n if use else 1 for use, n in used), (1,) * len(sizes))


def node_of(node: TraceNode) -> Node:
    """Return a trace's node with its attributes as numbers; a missing attribute is 0.

    Raises :class:`DimsweepError` naming the node and an attribute that is not a whole number.
    """

    def whole_number(name: str, least: int = 0) -> int:
        value = node.attributes.get(name, 0)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DimsweepError(
                f"{value!r} is not a whole number of {least} or more",
                where=f"node {node.id} ({node.name!r}).{name}",
                code="wrong-type",
            )
        return value

    involved = node.attributes.get("involved_dim", (True,) * 4)
    return Node(
        id=node.id,
        name=node.name,
        type=node.type,
        dependencies=node.dependencies,
        duration=node.duration_micros * 1000,
        on_cpu=bool(node.attributes.get("is_cpu_op", False)),
        ops=whole_number("num_ops"),
        tensor=whole_number("tensor_size"),
        collective=whole_number("comm_type"),
        size=whole_number("comm_size"),
        priority=whole_number("comm_priority", least=-(2**31)),
        source=whole_number("comm_src"),
        target=whole_number("comm_dst"),
        tag=whole_number("comm_tag"),
        group=str(node.attributes.get("pg_name", "")),
        involved=tuple(map(bool, involved)) if isinstance(involved, tuple) else (bool(involved),),
        lacks=tuple(name for name in _needed(node) if name not in node.attributes),
        groups=groups_text(node),
    )


def check_complete(node: Node, where: str) -> None:
    """Raise :class:`DimsweepError` at ``where`` for a node that lacks attributes."""
    if node.lacks:
        raise DimsweepError(
            f"a {node.type.name}_NODE without {', '.join(node.lacks)}",
            where=where,
            hint="write it: there is no default that suits every trace",
            code="missing",
        )


def _needed(node: TraceNode) -> tuple[str, ...]:
    names = _NEEDED.get(node.type, ())
    if node.attributes.get("comm_type") == CollectiveType.BARRIER:
        return tuple(name for name in names if name != "comm_size")  # a barrier has no bytes
    return names


class Meaning(NamedTuple):
    """The native collective for a Chakra type, and the formula of a member's bytes on entry.

    The formula takes ``s`` (comm_size) and ``p`` (2 or more members).
    """

    kind: CollectiveKind
    held: Callable[[float, int], float]


def _itself(s: float, p: int) -> float:
    return s


_MEANINGS: Mapping[CollectiveType, Meaning] = {
    **{CollectiveType(number): Meaning(kind, _itself) for number, kind in KINDS.items()},
    CollectiveType.BROADCAST: Meaning(CollectiveKind.ALL_GATHER, lambda s, p: s / (p - 1)),
    CollectiveType.REDUCE: Meaning(CollectiveKind.REDUCE_SCATTER, lambda s, p: s * p / (p - 1)),
    CollectiveType.GATHER: Meaning(CollectiveKind.ALL_GATHER, _itself),
    CollectiveType.SCATTER: Meaning(CollectiveKind.ALL_GATHER, lambda s, p: s / p),
    CollectiveType.REDUCE_SCATTER_BLOCK: Meaning(CollectiveKind.REDUCE_SCATTER, _itself),
    CollectiveType.BARRIER: Meaning(CollectiveKind.ALL_REDUCE, lambda s, p: 0.0),
}
assert set(_MEANINGS) == set(CollectiveType)


def native_collective(collective: int, size: float, members: int) -> tuple[CollectiveKind, float]:
    """Return the native collective, and the bytes that a member holds on entry.

    Parameters
    ----------
    collective
        Chakra's ``comm_type``.
    size
        Its ``comm_size`` in bytes.
    members
        The number of members of the group.

    Raises
    ------
    DimsweepError
        For an unknown type.
    """
    if collective not in tuple(CollectiveType):
        known = ", ".join(f"{kind.value} ({kind.name})" for kind in CollectiveType)
        raise DimsweepError(
            f"unknown comm_type {collective}", hint=f"known: {known}", code="unknown-name"
        )
    meaning = _MEANINGS[CollectiveType(collective)]
    return meaning.kind, meaning.held(size, members) if members > 1 else size
