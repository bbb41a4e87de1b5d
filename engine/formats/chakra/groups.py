"""The communicator groups that traces name: in a file, ``{"1": [0, 1, ...], ...}``, or in the
traces.

PyTorch records its process groups in a METADATA node ``process_group:init``, whose inputs Chakra's
converter keeps as text: ``["[{"pg_name": "1", "ranks": [0, 1]}, ...]"]``.  ASTRA-sim reads them
there, too.  An empty list of ranks is the group of all.
"""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, StrictInt

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.trace import NodeType, TraceNode
from dimsweep.engine.formats.fields import read_json, validated

MOST_RANKS = 2**31  # ranks that a group may name, where the number of traces does not say
_INIT = "process_group:init"
_LISTED = re.compile(r"\[\s*\{.*\}\s*\]", re.DOTALL)


class _Group(BaseModel):
    pg_name: str | int
    ranks: list[StrictInt] = []


def read_groups(path: Path | None, n_npus: int) -> dict[str, tuple[int, ...]]:
    """The ranks of each group, in file order; no file is no groups.

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
        raise DimsweepError(f"{ranks!r} is no list of different ranks below {n_npus}", where=where)


def groups_text(node: TraceNode) -> str:
    """Return the text of the process groups in a node, "" if it has none."""
    has_groups = node.type is NodeType.METADATA and _INIT in node.name and node.inputs
    return node.inputs.values if has_groups and node.inputs else ""


class Noted(NamedTuple):
    """The groups that traces record: ``ranks`` of each group, and by trace the group that each
    recorded name means.  A name may mean other ranks on another rank, as PyTorch names groups."""

    ranks: Mapping[str, tuple[int, ...]]
    names: Sequence[Mapping[str, str]]

    def of_trace(self, i: int, nodes: tuple[TraceNode, ...]) -> tuple[TraceNode, ...]:
        """Return the nodes of a trace, whose ``pg_name`` are the names of :attr:`ranks`."""
        changed = {name: group for name, group in self.names[i].items() if name != group}
        if not changed:
            return nodes
        return tuple(
            node._replace(attributes={**node.attributes, "pg_name": changed[name]})
            if (name := str(node.attributes.get("pg_name"))) in changed
            else node
            for node in nodes
        )


def noted_groups(
    texts: Iterable[Iterable[str]], n_npus: int, given: Mapping[str, tuple[int, ...]]
) -> Noted:
    """Return the groups in the ``texts`` of each trace (:func:`groups_text`).

    Groups that are ``given`` go before them.  Raises :class:`DimsweepError` for a text that lists
    no groups.
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
    return Noted(groups, names)


def _unique(name: str, ranks: tuple[int, ...], groups: dict[str, tuple[int, ...]]) -> str:
    """Return the name of a group in ``groups``, to which it is added if it is missing."""
    for number in itertools.count(1):
        key = name if number == 1 else f"{name} ({number})"
        if groups.setdefault(key, ranks) == ranks:
            return key
    raise AssertionError


@lru_cache
def _listed(text: str, n_npus: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and the ranks of each group in a text."""
    where = f"METADATA node {_INIT}"
    found = _LISTED.search(text)
    try:
        content = json.loads(found[0].replace('\\"', '"')) if found else []
    except (ValueError, RecursionError) as error:
        raise DimsweepError(f"it lists no groups: {error}", where=where) from error
    groups = validated(list[_Group], content, where)
    for group in groups:
        if group.ranks:
            _check(tuple(group.ranks), n_npus, f"{where}: {group.pg_name}")
    return [(str(group.pg_name), tuple(group.ranks)) for group in groups]
