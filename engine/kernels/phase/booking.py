"""What a class does with its time: compute, or communication that no compute hides."""

from __future__ import annotations

from engine.kernels.jit import inlined
from engine.kernels.phase.state import State
from engine.lower.program import Floats, Structure, Table


@inlined
def account(s: Structure, st: State, number: int, now: int) -> None:
    """Book the time since the class last changed: compute, or exposed communication.

    Communication is exposed while the class computes nothing; an instant of it is shared equally
    among the operators in flight, and among the ports that serve the class.
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
        first = number * s.shape.n_ports
        ports = st.ports[first : first + s.shape.n_ports]
        _share_among_dims(ports, s.shape.n_ports // s.shape.n_dims, st.dim_exposed[number], span)


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
def _share_among_dims(ports: Table, queues: int, exposed: Floats, span: int) -> None:
    serving = 0
    for k in range(len(ports)):
        serving += ports[k]["serving"] > 0
    share = float(span)
    if serving == 0:
        exposed[len(exposed) - 1] += share
    elif serving > 1:
        share /= serving
    for k in range(len(ports)):
        if ports[k]["serving"] > 0:
            exposed[k // queues] += share
