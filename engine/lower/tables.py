"""Tables: nodes, flows and forms as the record arrays of a :class:`Structure`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from engine.cluster.cluster import Cluster, DimensionOrder
from engine.lower import program as p
from engine.lower.forms import Form, Forms
from engine.lower.nodes import MEMORY, Nodes
from engine.lower.stages import Folding
from engine.units import PICOSECONDS


def _starts(lengths: Iterable[int]) -> list[int]:
    return np.cumsum([0, *lengths]).tolist()


def _table(dtype: np.dtype[np.void], *columns: Iterable[Any]) -> p.Table:
    return np.array(list(zip(*columns, strict=True)), dtype=dtype)


def structure(cluster: Cluster, folding: Folding, nodes: Nodes, forms: Forms) -> p.Structure:
    shape = _shape(cluster, folding, nodes)
    following: list[list[int]] = [[] for _ in nodes.name]
    for node, after in enumerate(nodes.after):
        for before in after:
            following[before].append(node)
    next_start = _starts(map(len, following))
    form_list = list(forms.forms)
    uses = [use for form in form_list for use in form.uses]
    use_start = _starts(len(form.uses) for form in form_list)
    phases = list(forms.schedules)
    steps = [step for _, phase in phases for step in phase.steps]
    step_start = _starts(len(phase.steps) for _, phase in phases)
    return p.Structure(
        shape=shape,
        nodes=_table(
            p.NODE,
            nodes.kind,
            nodes.cls,
            (
                c * shape.n_streams + stream if stream >= 0 else -1
                for c, stream in zip(nodes.cls, nodes.stream, strict=True)
            ),
            nodes.key,
            nodes.flow,
            map(len, nodes.after),
            next_start[:-1],
            next_start[1:],
            nodes.tally,
            _lookahead(nodes, following, form_list),
            nodes.duration,
            nodes.memory,
        ),
        following=np.array([node for after in following for node in after], dtype=np.uint32),
        flows=_flows(nodes, form_list),
        members=_table(
            p.MEMBER,
            (nodes.cls[node] for flow in nodes.members for node in flow),
            (node for flow in nodes.members for node in flow),
        ),
        forms=_table(
            p.FORM,
            (form.kind for form in form_list),
            (form.chunks for form in form_list),
            (form.priority for form in form_list),
            use_start[:-1],
            use_start[1:],
            (form.n_bytes for form in form_list),
        ),
        uses=np.array(uses, dtype=p.USE),
        schedules=_table(
            p.SCHEDULE,
            (phase.share for _, phase in phases),
            (phase.growth for _, phase in phases),
            (phase.bytes_sent for _, phase in phases),
            (kind for kind, _ in phases),
            step_start[:-1],
            step_start[1:],
        ),
        steps=np.array(
            [(s.count, s.hops, s.bytes_fraction, s.reduce_fraction, s.messages) for s in steps],
            dtype=p.STEP,
        ),
    )


def _lookahead(nodes: Nodes, following: list[list[int]], forms: list[Form]) -> list[int]:
    """How far each node is felt (see engine.kernels.phase.kernel).

    Receives and collectives of several classes wait for other classes.  A collective of one rank
    ends at once, whatever follows.  The end of a send is felt by its receiver; that of a node is
    by whatever it lets start, and that of a class's last node by the whole run.
    """
    lookahead: list[int] = [p.Lookahead.FULL] * len(nodes.name)
    for node, (kind, flow) in enumerate(zip(nodes.kind, nodes.flow, strict=True)):
        if kind == p.NodeKind.SEND:
            lookahead[node] = p.Lookahead.UNTIL_END
        elif kind not in (p.NodeKind.COMPUTE, p.NodeKind.ACCESS) and (
            kind == p.NodeKind.RECEIVE
            or len(nodes.members[flow]) > 1
            or not forms[nodes.flow_form[flow]].uses
        ):
            lookahead[node] = p.Lookahead.NONE
    outer = [r == p.Lookahead.NONE for r in lookahead]
    for node, after in enumerate(following):
        if lookahead[node] == p.Lookahead.FULL and (not after or any(outer[n] for n in after)):
            lookahead[node] = p.Lookahead.UNTIL_END
    return lookahead


def _shape(cluster: Cluster, folding: Folding, nodes: Nodes) -> p.Shape:
    model, reduce_bandwidth = cluster.collectives, cluster.npu.reduce_bandwidth
    return p.Shape(
        n_classes=len(folding.graph),
        n_dims=len(cluster.topology.dims),
        n_streams=1 + len(nodes.streams),
        n_tallies=len(nodes.tallies),
        memory_stream=_memory_stream(nodes),
        queue=model.queue,
        themis=model.order is DimensionOrder.THEMIS,
        endpoint_delay=model.endpoint_delay,
        reduce_time=PICOSECONDS / reduce_bandwidth if reduce_bandwidth else 0.0,
    )


def _flows(nodes: Nodes, forms: list[Form]) -> p.Table:
    members = [len(flow) for flow in nodes.members]
    chunks = [forms[form].chunks for form in nodes.flow_form]
    member_start, chunk_start = _starts(members), _starts(chunks)
    return _table(
        p.FLOW,
        nodes.flow_form,
        # A flow's place among simultaneous ones follows from the graphs, never from ranks.
        (min(nodes.key[node] for node in flow) for flow in nodes.members),
        nodes.receiver,
        member_start[:-1],
        member_start[1:],
        chunk_start[:-1],
        chunk_start[1:],
        _starts(m * c for m, c in zip(members, chunks, strict=True))[:-1],
    )


def _memory_stream(nodes: Nodes) -> int:
    streams = list(nodes.streams)
    return 1 + streams.index(MEMORY) if MEMORY in streams else 0
