"""What a class does with its time: compute, or communication that no compute hides."""

from __future__ import annotations

from engine.kernels.jit import inlined
from engine.kernels.phase.state import State
from engine.lower.program import Floats, Structure, Table


@inlined
def account(s: Structure, st: State, number: int, now: int) -> None:
    """Book the time since the class last changed: compute, or exposed communication.

    Communication is exposed while the class computes nothing; an instant of it is shared equally
    among the operators in flight, and among the dimensions that serve the class.
    """
    cls = st.classes[number]
    span = now - cls["clock"]
    if span == 0:
        return
    cls["clock"] = now
    if st.streams[number * s.shape.n_streams]["node"] >= 0:
        cls["compute"] += span
    elif cls["busy"] >= 0:
        cls["exposed"] += span
        _share_among_nodes(st.nodes, cls["busy"], span)
        first = number * s.shape.n_dims
        ports = st.ports[first : first + s.shape.n_dims]
        _share_among_dims(ports, st.dim_exposed[number], span)


@inlined
def _share_among_nodes(nodes: Table, head: int, span: int) -> None:
    if nodes[head]["busy_next"] < 0:
        nodes[head]["exposed"] += span
        return
    n, node = 0, head
    while node >= 0:
        n += 1
        node = nodes[node]["busy_next"]
    node = head
    while node >= 0:
        nodes[node]["exposed"] += span / n
        node = nodes[node]["busy_next"]


@inlined
def _share_among_dims(ports: Table, exposed: Floats, span: int) -> None:
    serving = 0
    for d in range(len(ports)):
        serving += ports[d]["entry"] >= 0
    share = float(span)
    if serving == 0:
        exposed[len(ports)] += share
    elif serving > 1:
        share /= serving
    for d in range(len(ports)):
        if ports[d]["entry"] >= 0:
            exposed[d] += share
