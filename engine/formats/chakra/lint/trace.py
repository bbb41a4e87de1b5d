"""What is wrong with the graph of one trace, all of it, and what can be mended.

A repair is safe when no order that the trace can mean is lost: a dependency on nothing, or on the
node itself, can never be met, and of two equal nodes one is too many.  An attribute of ours that
contradicts a standard field follows the field, which every other tool reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dimsweep.engine.formats.chakra import own
from dimsweep.engine.formats.chakra.files import Scanned
from dimsweep.engine.formats.chakra.graph import Edges, edges_of, strong_components
from dimsweep.engine.formats.chakra.trace import Trace, TraceNode

_SHOWN = 6


@dataclass(frozen=True)
class Finding:
    """Something wrong: ``where`` (file, node, byte), and the ``fix``.

    ``repair`` says what :func:`repaired` does about it; empty if only the user can tell.
    """

    where: str
    what: str
    fix: str
    repair: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  {self.fix}"


def lint_trace(scanned: Scanned) -> Iterator[Finding]:
    """All faults of a trace's graph, and of its file if it is damaged."""
    trace, places, fault = scanned
    if fault is not None:
        fix = fault.hint or "write the trace again; what follows is of the nodes before"
        yield Finding(fault.where, fault.what, fix)
    elif not trace.nodes:
        yield Finding(str(places.path), "the trace has no nodes", "give the rank something to do")
    index, unique = _index(trace), True
    for i, node in enumerate(trace.nodes):
        first = index[node.id]
        if first != i:
            unique = False
            equal = _mended(node, index) == _mended(trace.nodes[first], index)
            yield _twin(scanned, i, trace.nodes[first], equal=equal)
    edges = edges_of(trace.nodes, index)
    yield from _impossible(scanned, edges, broken_off=fault is not None)
    yield from _contradictions(scanned)
    if unique:
        yield from _circles(scanned, edges)


def repaired(trace: Trace) -> Trace:
    """The trace with all safe repairs done; the same one if there is nothing to repair."""
    index = _index(trace)
    nodes = [_mended(node, index) for node in trace.nodes]
    mended = tuple(
        node for i, node in enumerate(nodes) if index[node.id] == i or node != nodes[index[node.id]]
    )
    return trace if mended == trace.nodes else replace(trace, nodes=mended)


def _mended(node: TraceNode, index: dict[int, int]) -> TraceNode:
    def possible(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i for i in ids if i in index and i != node.id)

    agreeing = {conflict.attribute: conflict.agreeing for conflict in own.conflicts(node)}
    if agreeing:
        node = node._replace(attributes={**node.attributes, **agreeing})
    data, control = possible(node.data_dependencies), possible(node.control_dependencies)
    if len(data) + len(control) == len(node.data_dependencies) + len(node.control_dependencies):
        return node
    return node._replace(data_dependencies=data, control_dependencies=control)


def _index(trace: Trace) -> dict[int, int]:
    """The place of each id, where it comes first."""
    # A later entry replaces an earlier one, so the last to come is the first in the file.
    last = len(trace.nodes) - 1
    return {node.id: last - i for i, node in enumerate(reversed(trace.nodes))}


def _twin(scanned: Scanned, i: int, first: TraceNode, *, equal: bool) -> Finding:
    node = scanned.trace.nodes[i]
    return Finding(
        scanned.places.of(i + 1, node.id, node.name),
        f"{first.name!r} has the same id" + (", and is equal" if equal else ""),
        "write a node once" if equal else "number the nodes, and what they wait for, anew",
        "dropped" if equal else "",
    )


def _impossible(scanned: Scanned, edges: Edges, *, broken_off: bool) -> Iterator[Finding]:
    """Dependencies on nothing, and on the node itself."""
    nodes = scanned.trace.nodes
    for i in np.unique(edges.sources[edges.targets < 0]).tolist():
        here = edges.targets[edges.offsets[i] : edges.offsets[i + 1]]
        waits = nodes[i].data_dependencies + nodes[i].control_dependencies
        missing = [str(waits[k]) for k in np.flatnonzero(here < 0)]
        yield Finding(
            scanned.places.of(i + 1, nodes[i].id, nodes[i].name),
            f"it waits for id {', '.join(missing[:_SHOWN])}{', ...' * (len(missing) > _SHOWN)}, "
            f"which {'is' if len(missing) == 1 else 'are'} not in the trace"
            + (" as far as it goes" if broken_off else ""),
            "write that node as well, or drop the dependency",
            f"dropped the dependency on id {', '.join(missing[:_SHOWN])}",
        )
    for i in np.unique(edges.sources[edges.sources == edges.targets]).tolist():
        yield Finding(
            scanned.places.of(i + 1, nodes[i].id, nodes[i].name),
            "it waits for itself",
            "drop the dependency",
            "dropped the dependency on itself",
        )


def _contradictions(scanned: Scanned) -> Iterator[Finding]:
    """Attributes of ours that contradict the standard field which they refine."""
    for i, node in enumerate(scanned.trace.nodes):
        for conflict in own.conflicts(node):
            where = scanned.places.of(i + 1, node.id, node.name)
            repair = f"set {conflict.attribute} to {conflict.agreeing}"
            yield Finding(where, conflict.what, conflict.fix, repair)


def _circles(scanned: Scanned, edges: Edges) -> Iterator[Finding]:
    """Strongly connected components of several nodes: each waits for all the others."""
    nodes, there = scanned.trace.nodes, edges.targets >= 0
    if not there.all():
        counts = np.bincount(edges.sources[there], minlength=len(nodes))
        edges = Edges(np.concatenate(([0], np.cumsum(counts))), edges.targets[there])
    component = strong_components(edges)
    if component is None:
        return
    size = np.bincount(component)
    order, end = np.argsort(component, kind="stable"), np.cumsum(size)
    for number in np.flatnonzero(size > 1):
        members = order[end[number] - size[number] : end[number]]
        named = ", ".join(f"id {nodes[i].id} ({nodes[i].name!r})" for i in members[1:_SHOWN])
        more = f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
        first = int(members[0])
        yield Finding(
            scanned.places.of(first + 1, nodes[first].id, nodes[first].name),
            f"it waits for itself, by way of {named}{more}",
            "drop one of the dependencies among them; which one only the job can tell",
        )
