"""Runs the network kernel, and says what happened."""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any, cast

import numpy as np

from engine.errors import DimsweepError
from engine.fidelity import Fidelity
from engine.kernels.carriers import Traffic
from engine.kernels.carriers.fabric import fabric_of
from engine.kernels.core.none import NONE
from engine.kernels.messages.count import check_number
from engine.kernels.messages.links import LinkAccount, Span, utilisation
from engine.kernels.messages.preemption import may_suspend
from engine.kernels.messages.program import check_ranks, links_to_watch, network_of
from engine.kernels.messages.run import (
    MessageRun,
    OperatorSpan,
    PhaseSpan,
    blocked_error,
    reducing_error,
)
from engine.kernels.messages.tables import Tables, build_tables
from engine.kernels.network import events
from engine.kernels.network import state as st
from engine.kernels.network.by_packets import Packets
from engine.kernels.network.carrying import CARRIERS
from engine.kernels.network.folding import run_folded
from engine.kernels.network.kernel import run
from engine.kernels.network.setup import How, enlarged, new_state
from engine.kernels.phase.batch import Measures, outcome_error
from engine.kernels.phase.diagnosis import explain_stuck
from engine.kernels.phase.state import FINISHED, TOO_LONG
from engine.lower.program import Program, Table
from engine.network.graph import Network

_CARRIED = {fidelity: number for number, fidelity in enumerate(CARRIERS)}  # Settings.carried


def run_messages(
    program: Program,
    fidelity: Fidelity = Fidelity.MESSAGE,
    *,
    record: bool = False,
    watch: Collection[str] = (),
    fold: bool = True,
) -> MessageRun:
    """Simulate the program at its own point, message by message.

    :func:`engine.kernels.reference.run_on_simpy` is its witness.

    Every rank must be a class of its own, as :func:`lower_by_rank` makes it.  ``fidelity`` says how
    messages travel; ``record`` keeps when each of them held each link, and links that are named in
    ``watch`` note what packets do there (see :class:`Traffic`).  Unrecorded messages are folded
    unless ``fold`` is false (see :mod:`engine.kernels.network.folding`), or some may be suspended.
    Raises :class:`DimsweepError` for a program of larger classes, as :func:`network_of` does, and
    for what cannot finish, naming who waits for what.
    """
    check_ranks(program)
    network = network_of(program)
    watched = links_to_watch(network, watch, fidelity)
    tables = tables_of(program, network, fidelity)
    carried = _CARRIED[fidelity]
    if carried and len(tables.reductions):
        raise reducing_error()
    by_packets = fidelity is Fidelity.PACKET
    packets = Packets(program, network, tables, watched) if by_packets else None
    folds = fold and not carried and not record and not may_suspend(program)
    state, n_simulated = run_folded(program, network, tables) if folds else (None, None)
    if state is None:
        new = new_state(program, tables, network, How(carried, record))
        state = _finished(program, network, new, packets)
    traffic = _traffic(program, state, packets) if carried else None
    run = _result(program, network, tables, state, traffic)
    return dataclasses.replace(run, recorded=record, n_simulated=n_simulated)


def told(program: Program, network: Network, fidelity: Fidelity) -> Iterator[Any]:
    """All that a run depends on: the state before anything has happened and, of packets, how they
    are made, sent and marked."""
    tables, model = tables_of(program, network, fidelity), program.cluster.network
    yield new_state(program, tables, network, How(_CARRIED[fidelity]))
    if fidelity is Fidelity.PACKET:
        yield model.packets, model.routing, model.seed, fabric_of(network, model), tables.ends


def _result(
    program: Program, network: Network, tables: Tables, state: st.State, traffic: Traffic | None
) -> MessageRun:
    """The result of a run that has finished."""
    end = int(state.accounts.ranks["end"].max())
    return MessageRun(
        program=program,
        network=network,
        measures=_measures(state.accounts, end),
        links=_links(program, network, state, end),
        operators=_operators(state),
        phases=_phases(program, state),
        n_messages=int(state.wires.clock.counts["n_messages"][0]),
        plan=tables.wafer,
        traffic=traffic,
        recorded=False,
    )


def _operators(state: st.State) -> tuple[OperatorSpan, ...]:
    starts, ends = (state.nodes[name].tolist() for name in ("start", "end"))
    return tuple(map(OperatorSpan, starts, ends))


def tables_of(program: Program, network: Network, fidelity: Fidelity) -> Tables:
    """The tables of a program, built once for all its points."""
    spray = fidelity is Fidelity.PACKET and program.cluster.network.packets.spray
    for known, tables in program.tabled:
        if known == spray:
            return cast(Tables, tables)
    program.tabled.append((spray, build_tables(program, network, spray=spray)))
    return tables_of(program, network, fidelity)


def _finished(
    program: Program, network: Network, state: st.State, packets: Packets | None
) -> st.State:
    """The state in which a run ends.  Raises :class:`DimsweepError` for what cannot finish."""
    while (outcome := run(state)) in (events.FULL, events.CARRY):
        if outcome == events.FULL:
            state = enlarged(state)
        elif packets is not None:
            packets.go_on(state)
    if outcome == events.TOO_LONG:
        raise outcome_error(TOO_LONG)
    if outcome == events.TOO_MANY:
        check_number(int(state.wires.clock.counts["n_messages"][0]), program.cluster.network)
    if outcome == events.STUCK:
        raise _stuck(program, network, state)
    return state


def _traffic(program: Program, state: st.State, packets: Packets | None) -> Traffic:
    """What became of the messages that were carried."""
    messages = state.wires.messages[: state.wires.clock.counts["n_messages"][0]]
    members = state.flows["member"][state.entries["flow"][messages["entry"]]]
    nodes, which = np.unique(state.parts["node"][members], return_inverse=True)
    names = [program.names.node[node] for node in nodes.tolist()]
    operators = tuple(names[i] for i in which.tolist())
    if packets is not None:
        return packets.traffic(operators)
    return Traffic(operators, messages["start"].copy(), messages["arrival"].copy())


def _measures(accounts: st.Accounts, end: int) -> Measures:
    return Measures(
        outcome=np.array([FINISHED], dtype=np.int32),
        time=np.array([end], dtype=np.int64),
        end=accounts.ranks["end"][None],
        compute=accounts.ranks["compute"][None],
        exposed=accounts.ranks["exposed"][None],
        exposed_by_dim=accounts.dims["exposed"][None],
        exposed_by_tally=accounts.tallies["exposed"][None],
        busy=accounts.dims["busy"][None, :, :-1],
        bytes_sent=accounts.dims["bytes_sent"][None, :, :-1],
        path=None,
    )


def _name(program: Program, state: st.State, entry: int) -> str:
    """What an entry, or ~ a node, belongs to."""
    if entry < 0:
        return program.names.node[~entry]
    flow = state.flows[state.entries["flow"][entry]]
    return program.names.node[int(state.parts["node"][flow["member"]])]


def _links(
    program: Program, network: Network, state: st.State, end: int
) -> tuple[LinkAccount, ...]:
    spans: list[list[Span]] = [[] for _ in network.links]
    for span in _spans(state, of_ports=False):
        name = _name(program, state, span["entry"])
        spans[span["place"]].append(Span(int(span["start"]), int(span["end"]), name))
    columns = (state.wires.links[name].tolist() for name in ("n_bytes", "busy", "longest"))
    return tuple(
        LinkAccount(
            link,
            n_bytes,
            busy,
            utilisation(link, n_bytes, end),
            longest,
            tuple(own),
        )
        for link, n_bytes, busy, longest, own in zip(network.links, *columns, spans, strict=True)
    )


def _phases(program: Program, state: st.State) -> tuple[PhaseSpan, ...]:
    n_dims = program.structure.shape.n_dims
    return tuple(
        PhaseSpan(
            *divmod(~int(span["place"]), n_dims),
            int(span["start"]),
            int(span["end"]),
            _name(program, state, span["entry"]),
        )
        for span in _spans(state, of_ports=True)
    )


def _spans(state: st.State, *, of_ports: bool) -> Table:
    spans = state.wires.spans[: state.wires.clock.counts["n_spans"][0]]
    return spans[(spans["place"] < 0) == of_ports]


def _stuck(program: Program, network: Network, state: st.State) -> DimsweepError:
    runs = {i: node for i, node in enumerate(state.streams["node"].tolist()) if node != NONE}
    error = explain_stuck(program, state.nodes["state"].tolist(), runs)
    blocked = [
        f"{link.name}: a message of {_name(program, state, state.wires.parcels['entry'][parcel])!r}"
        for link, parcel in zip(network.links, state.wires.links["waits"].tolist(), strict=True)
        if parcel != NONE
    ]
    return blocked_error(blocked) if blocked else error
