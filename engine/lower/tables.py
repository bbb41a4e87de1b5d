"""Conversion of nodes, flows and forms to the record arrays of a :class:`Structure`."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.steps import Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower import program as p
from dimsweep.engine.lower.fold import Folding
from dimsweep.engine.lower.forms import Form, Forms, TypedSteps
from dimsweep.engine.lower.issue import Following
from dimsweep.engine.lower.memory import Served
from dimsweep.engine.lower.nodes import Nodes
from dimsweep.engine.units import PICOSECONDS

_AT_ONCE = 8192  # rows


def table(dtype: np.dtype[np.void], n: int, **columns: Iterable[Any]) -> p.Table:
    """Return a record array of ``n`` rows of ``dtype``; ``columns`` must give every field."""
    assert dtype.names is not None and set(columns) == set(dtype.names), set(columns)
    records = np.zeros(n, dtype=dtype)
    arrays = {
        name: column if isinstance(column, np.ndarray) else list(column)
        for name, column in columns.items()
    }
    for start in range(0, n, _AT_ONCE):  # which stay in the processor's cache, column by column
        some = slice(start, start + _AT_ONCE)
        for name, column in arrays.items():
            records[name][some] = column[some]
    return records


def structure(
    cluster: Cluster, folding: Folding, nodes: Nodes, forms: Forms, *, in_order: bool
) -> p.Structure:
    """Return the tables of a lowered workload, with nodes, flows and forms.

    With ``in_order``, an idle stream starts the operator with the lowest key, not the first ready.
    """
    numbers = {
        "n_classes": len(folding.graph),
        "n_streams": 1 + len(nodes.stream_names),
        "n_timed": nodes.n_timed,
        "n_tallies": len(nodes.tallies),
    }
    shape = _shape(cluster, forms, numbers, in_order=in_order)
    following = Following.from_waits(nodes.waits, nodes.turn)
    form_list = list(forms.forms)
    return of_forms(cluster, forms)._replace(
        shape=shape,
        nodes=_nodes(nodes, following, form_list),
        following=following.nodes,
        flows=_flows(nodes, form_list),
        members=table(
            p.MEMBER,
            len(nodes.members),
            cls=nodes.column("cls", nodes.members),
            node=nodes.members,
        ),
        services=_services(list(nodes.services)),
        server_uses=np.array(
            [use for served in nodes.services for use in served.uses], dtype=p.SERVER_USE
        ),
    )


def of_forms(cluster: Cluster, forms: Forms) -> p.Structure:
    """Return the tables of ``forms`` alone: communications without a graph."""
    own = list(forms.forms)
    phase_steps, steps = phase_tables(list(forms.phase_steps))
    numbers = {"n_classes": 0, "n_streams": 0, "n_timed": 0, "n_tallies": 0}
    return p.Structure(
        shape=_shape(cluster, forms, numbers, in_order=False),
        nodes=np.zeros(0, dtype=p.NODE),
        following=np.zeros(0, dtype=np.uint32),
        flows=np.zeros(0, dtype=p.FLOW),
        members=np.zeros(0, dtype=p.MEMBER),
        forms=_forms(own),
        uses=np.array([use for form in own for use in form.uses], dtype=p.USE),
        listed=np.zeros(0, dtype=p.LISTED),
        phase_steps=phase_steps,
        steps=steps,
    )


def _nodes(nodes: Nodes, following: Following, forms: list[Form]) -> p.Table:
    table = np.empty(len(nodes.name), p.NODE)
    ahead = lookahead(_own_lookahead(nodes, forms), following)
    start, waits = following.start, following.waits
    for first in range(0, len(table), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        nodes.rows(table, some)
        rows = table[some]
        rows["stream"], rows["key"], rows["flow"] = (
            nodes.stream[some],
            nodes.key[some],
            nodes.flow[some],
        )
        rows["waits"], rows["lookahead"] = waits[some], ahead[some]
        rows["next_start"], rows["next_end"] = start[:-1][some], start[1:][some]
    return table


def _services(services: list[Served]) -> p.Table:
    use_start = p.starts(len(served.uses) for served in services)
    return table(
        p.SERVICE,
        len(services),
        latency=(served.latency for served in services),
        own=(served.own for served in services),
        most=(served.most for served in services),
        use_start=use_start[:-1],
        use_end=use_start[1:],
    )


def _forms(forms: list[Form]) -> p.Table:
    use_start = p.starts(len(form.uses) for form in forms)
    n = len(forms)
    return table(
        p.FORM,
        n,
        kind=(form.kind for form in forms),
        chunks=(form.chunks for form in forms),
        priority=(form.priority for form in forms),
        use_start=use_start[:-1],
        use_end=use_start[1:],
        listed_start=[p.NOT_LISTED] * n,
        listed_length=[0] * n,
        listed_variants=[0] * n,
        n_bytes=(form.n_bytes for form in forms),
    )


def phase_tables(phases: list[TypedSteps]) -> tuple[p.Table, p.Table]:
    """Return the tables PHASE_STEPS and STEP for ``phases``, in their order."""
    steps = [step for _, phase in phases for step in phase.steps]
    return _phase_steps(phases), _steps(steps)


def _phase_steps(phases: list[TypedSteps]) -> p.Table:
    step_start = p.starts(len(phase.steps) for _, phase in phases)
    return table(
        p.PHASE_STEPS,
        len(phases),
        share=(phase.share for _, phase in phases),
        growth=(phase.growth for _, phase in phases),
        bytes_sent=(phase.bytes_sent for _, phase in phases),
        kind=(kind for kind, _ in phases),
        step_start=step_start[:-1],
        step_end=step_start[1:],
    )


def _steps(steps: list[Step]) -> p.Table:
    return table(
        p.STEP,
        len(steps),
        count=(step.count for step in steps),
        hops=(step.hops for step in steps),
        fixed=(step.fixed for step in steps),
        n_bytes=(step.bytes_fraction for step in steps),
        reduce=(step.reduce_fraction for step in steps),
        messages=(step.messages for step in steps),
    )


def _own_lookahead(nodes: Nodes, forms: list[Form]) -> NDArray[np.int8]:
    """Return each node's lookahead before the nodes that wait for it are considered.

    Receives and collectives of several classes wait for other classes. A collective of one rank
    ends at once. The end of a send affects its receiver, and all of it affects other senders to the
    same entrance (see engine.kernels.phase.ports). An access that shares its servers with other
    classes affects them from beginning to end.
    """
    felt = nodes.column("felt").astype(np.int8)
    felt[_find_competing_sends(nodes, forms)] = p.Lookahead.NONE
    alone = np.array([form.kind == p.POINT_TO_POINT for form in forms], dtype=bool)
    empty = np.array([not form.uses for form in forms], dtype=bool)
    met = ((nodes.n_members > 1) | empty[nodes.flow_form]) & ~alone[nodes.flow_form]
    felt[nodes.members[np.repeat(met, nodes.n_members)]] = p.Lookahead.NONE
    return felt


def _find_competing_sends(nodes: Nodes, forms: list[Form]) -> NDArray[np.int64]:
    """Return the sends that share a receiver's entrance with sends of another class."""
    start, n_classes = p.starts(nodes.n_members), nodes.n_classes
    entered = [np.zeros((2, 0), dtype=np.int64)]  # the entrance, among all; the send
    sent = np.flatnonzero(nodes.receiver >= 0)
    entrances = dict.fromkeys((use.dim, use.entrance) for form in forms for use in form.uses)
    numbers = {entrance: number for number, entrance in enumerate(entrances)}
    for number, form in enumerate(forms):
        flows = sent[nodes.flow_form[sent] == number]
        sends = nodes.members[start[flows]]
        there = nodes.column("cls", nodes.receiver[flows]) * len(numbers)
        entered += [
            np.stack([there + numbers[use.dim, use.entrance], sends])
            for use in form.uses
            if use.entrance != p.NO_ENTRANCE
        ]
    entrance, sends = np.concatenate(entered, axis=1)
    # With the classes that send there.
    pairs = np.unique(entrance * n_classes + nodes.column("cls", sends))
    return sends[np.bincount(pairs // n_classes)[entrance] > 1]


def lookahead(felt: NDArray[np.int8], following: Following) -> NDArray[np.int8]:
    """Return each node's lookahead: ``felt``, reduced if its end affects other classes.

    The end of a node affects other classes through the nodes that wait for it; the end of a class's
    last node affects the whole run.
    """
    start, end = following.start[:-1], following.start[1:]
    soon = start == end
    # One more, without a waiting node, so that each node's start is a valid index.
    bound = np.append(felt[following.nodes] == p.Lookahead.NONE, False)
    soon |= np.logical_or.reduceat(bound, start)
    return np.where((felt == p.Lookahead.FULL) & soon, np.int8(p.Lookahead.UNTIL_END), felt)


def _shape(
    cluster: Cluster, forms: Forms, numbers: Mapping[str, int], *, in_order: bool
) -> p.Shape:
    model, reduce_bandwidth = cluster.collectives, cluster.npu.reduce_bandwidth
    crosses = any(
        len(form.uses) > 1 and form.kind <= CollectiveKind.ALL_GATHER for form in forms.forms
    )
    return p.Shape(
        **numbers,
        n_dims=len(cluster.topology.dims),
        n_ports=len(cluster.topology.dims),
        queue=int(model.queue),
        order=int(model.order) if crosses else 0,
        endpoint_delay=model.endpoint_delay,
        stream_order=int(p.StreamOrder.KEY if in_order else p.StreamOrder.ARRIVAL),
        reduce_time=PICOSECONDS / reduce_bandwidth if reduce_bandwidth else 0.0,
    )


def _flows(nodes: Nodes, forms: list[Form]) -> p.Table:
    members = nodes.n_members
    chunks = np.array([form.chunks for form in forms], dtype=np.int64)[nodes.flow_form]
    key = nodes.key[nodes.members]
    member, chunk, entry = map(p.starts, (members, chunks, members * chunks))
    return table(
        p.FLOW,
        len(members),
        form=nodes.flow_form,
        # A flow's place among simultaneous ones follows from the graphs, never from ranks.
        key=np.minimum.reduceat(key, member[:-1]) if len(key) > len(members) else key,
        receiver=nodes.receiver,
        member_start=member[:-1],
        member_end=member[1:],
        chunk_start=chunk[:-1],
        chunk_end=chunk[1:],
        entry_start=entry[:-1],
    )
