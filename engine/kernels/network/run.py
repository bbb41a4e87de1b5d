"""Run the network kernel and collect its results.

If a program folds (:mod:`engine.kernels.messages.folding`), one rank per equivalence class is
simulated.  Where the order of two simultaneous requests for a link would matter, the folded run
reports a tie (:mod:`engine.kernels.network.clock`), and all ranks are simulated instead.
"""

import dataclasses
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.carriers import Traffic
from dimsweep.engine.kernels.carriers.carrier import fabric_of
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.messages.folding import Folding, find_folding
from dimsweep.engine.kernels.messages.phases import may_suspend
from dimsweep.engine.kernels.messages.program import (
    LinkAccount,
    Measures,
    MessageRun,
    OperatorSpan,
    PhaseSpan,
    Span,
    check_message_count,
    check_ranks,
    links_to_watch,
    measures_by_rank,
    network_of,
    reducing_error,
    stuck_error,
    too_long_error,
)
from dimsweep.engine.kernels.messages.tables import Tables, build_tables
from dimsweep.engine.kernels.network import clock
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.carrying import CARRIERS, Packets
from dimsweep.engine.kernels.network.kernel import run
from dimsweep.engine.kernels.network.setup import RunOptions, enlarge_state, new_state
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.program import Floats, Program, Table
from dimsweep.engine.network.graph import Network

_CARRIED = {fidelity: number for number, fidelity in enumerate(CARRIERS)}  # Settings.carried


class MessageRunner:
    """Simulates a program at many points (bandwidths), message by message; prepares it once.

    :func:`engine.kernels.reference.run_on_simpy` is the reference that must agree.

    Every rank must be a separate class, as :func:`lower_by_rank` makes it; ``fidelity`` selects
    messages, flows or packets.  Raises :class:`DimsweepError` for a program of larger classes.
    """

    def __init__(self, program: Program, fidelity: Fidelity = Fidelity.MESSAGE) -> None:
        check_ranks(program, fidelity)
        self.program, self.fidelity = program, fidelity

    @collector_paused()  # what a run makes are many small objects, and no circles among them
    def run(
        self,
        bandwidth: Floats | None = None,
        *,
        record: bool = False,
        watch: Collection[str] = (),
        fold: bool = True,
    ) -> MessageRun:
        """Simulate one point: ``bandwidth`` (D,) in bytes/s, or the program's own bandwidth.

        ``record`` keeps the intervals in which each message held each link.  Links named in
        ``watch`` record their queues and traffic over time (see :class:`Traffic`).  Without
        ``record``, ranks are folded unless ``fold`` is false (see
        :mod:`engine.kernels.messages.folding`) or some messages may be suspended.  Raises
        :class:`DimsweepError` as :func:`network_of` does, and for a deadlock, naming who waits for
        what.
        """
        own = bandwidth is None
        program = self.program if own else self.program.rebind(bandwidth=bandwidth)
        if not own and program.communication.by_network:  # other messages at other bandwidths
            runner = MessageRunner(program, self.fidelity)
            return runner.run(record=record, watch=watch, fold=fold)
        network = self._network if own else network_of(program)
        watched = links_to_watch(network, watch, self.fidelity)
        tables, carried = self._tables, _CARRIED[self.fidelity]
        if carried and len(tables.reductions):
            raise reducing_error()
        by_packets = self.fidelity is Fidelity.PACKET
        packets = Packets(program, network, tables, watched) if by_packets else None
        folds = fold and not carried and not record and not may_suspend(program)
        folding = self._folding if folds else None
        state, n_simulated = _run_folded(folding, program, network) if folding else (None, None)
        if state is None:
            new = new_state(program, tables, network, RunOptions(carried, record))
            state = _finish(program, network, new, packets)
        traffic = _traffic(program, state, packets) if carried else None
        run = _result(program, network, tables, state, traffic)
        return dataclasses.replace(run, recorded=record, n_simulated=n_simulated)

    def inputs(self) -> Iterator[Any]:
        """Yield all inputs of a run at the program's own point, for comparison with other runs.

        These are the links, the initial state and, for packets, their settings.
        """
        program, network, model = self.program, self._network, self.program.communication.network
        yield network.links
        yield new_state(program, self._tables, network, RunOptions(_CARRIED[self.fidelity]))
        if self.fidelity is Fidelity.PACKET:
            fabric = fabric_of(network, model)
            yield model.packets, model.routing, model.seed, fabric, self._tables.ends

    @cached_property
    def _network(self) -> Network:
        return network_of(self.program)

    @cached_property
    def _tables(self) -> Tables:
        return build_tables(self.program, self._network)

    @cached_property
    def _folding(self) -> Folding | None:
        return find_folding(self.program, self._network, self._tables)


def run_messages(
    program: Program,
    fidelity: Fidelity = Fidelity.MESSAGE,
    *,
    record: bool = False,
    watch: Collection[str] = (),
    fold: bool = True,
) -> MessageRun:
    """Simulate the program at its own point, message by message.

    To simulate more points of one program, keep a :class:`MessageRunner`.
    """
    return MessageRunner(program, fidelity).run(record=record, watch=watch, fold=fold)


def _result(
    program: Program, network: Network, tables: Tables, state: st.State, traffic: Traffic | None
) -> MessageRun:
    """Return the result of a finished run."""
    end = int(state.accounts.ranks["end"].max())
    return MessageRun(
        program=program,
        network=network,
        measures=_measures(state.accounts),
        links=_links(program, network, state, end),
        operators=tuple(map(OperatorSpan._make, state.nodes[["start", "end"]].tolist())),
        phases=_phases(program, state),
        n_messages=int(state.wires.clock.counts["n_messages"][0]),
        plan=tables.interconnect,
        traffic=traffic,
        recorded=False,
    )


def _execute(state: st.State, packets: Packets | None = None) -> tuple[st.State, int]:
    """Run a state to its end, enlarging tables as needed; return final state and outcome."""
    while (outcome := run(state)) in (clock.FULL, clock.CARRY):
        if outcome == clock.FULL:
            state = enlarge_state(state)
        elif packets is not None:
            packets.carry(state)
    return state, outcome


def _finish(
    program: Program, network: Network, state: st.State, packets: Packets | None
) -> st.State:
    """Run a state to its end; raise :class:`DimsweepError` if it cannot finish."""
    state, outcome = _execute(state, packets)
    if outcome == clock.TOO_LONG:
        raise too_long_error()
    if outcome == clock.TOO_MANY:
        n_messages = int(state.wires.clock.counts["n_messages"][0])
        check_message_count(n_messages, program.communication.network)
    if outcome == clock.STUCK:
        raise _stuck_error_of(program, network, state)
    return state


def _run_folded(
    folding: Folding, program: Program, network: Network
) -> tuple[st.State, int] | tuple[None, None]:
    """Run the folded program; return the final state and the number of ranks simulated.

    Return (None, None) if a tie decides, or if the run does not finish.
    """
    point = dataclasses.replace(
        folding.program, bandwidth=program.bandwidth, latency=program.latency
    )
    new = new_state(point, folding.tables, network, RunOptions(folded=folding.links))
    state, outcome = _execute(new)
    counts = state.wires.clock.counts
    n_messages = folding.n_sheets * int(counts["n_messages"][0])
    if outcome != clock.FINISHED or n_messages > program.communication.network.max_messages:
        return None, None
    counts["n_messages"] = n_messages
    return _unfold(folding, state), folding.n_ranks


def _unfold(folding: Folding, state: st.State) -> st.State:
    """Expand the state of a folded run to all ranks, operators and links."""
    links = np.append(state.wires.links, np.zeros(1, st.LINK))  # the last: nothing crosses it
    return state._replace(
        accounts=st.Accounts._make(table[folding.rank_of] for table in state.accounts),
        nodes=state.nodes[folding.node_of],
        wires=state.wires._replace(links=links[folding.link_of]),
    )


def _traffic(program: Program, state: st.State, packets: Packets | None) -> Traffic:
    """Return start and arrival of each message that flows or packets carried."""
    messages = state.wires.messages[: state.wires.clock.counts["n_messages"][0]]
    members = state.flows["member_start"][state.entries["flow"][messages["entry"]]]
    nodes, which = np.unique(state.parts["node"][members], return_inverse=True)
    names = [program.names.node[node] for node in nodes.tolist()]  # which looks each of them up
    operators = tuple(map(names.__getitem__, which.tolist()))
    if packets is not None:
        return packets.traffic(operators)
    return Traffic(operators, messages["start"].copy(), messages["arrival"].copy())


def _measures(accounts: st.Accounts) -> Measures:
    ranks, ports = accounts.ranks, accounts.ports
    return measures_by_rank(
        end=ranks["end"],
        compute=ranks["compute"],
        exposed=ranks["exposed"],
        exposed_by_dim=np.column_stack((ports["exposed"], ranks["unserved"])),
        exposed_by_tally=accounts.exposed,
        busy=ports["busy"],
        bytes_sent=ports["bytes_sent"],
    )


def _name(program: Program, state: st.State, entry: int) -> str:
    """Return the name of the operator of ``entry``; a negative ``entry`` is ~ a node's number."""
    if entry < 0:
        return program.names.node[~entry]
    flow = state.flows[state.entries["flow"][entry]]
    return program.names.node[int(state.parts["node"][flow["member_start"]])]


def _links(
    program: Program, network: Network, state: st.State, end: int
) -> tuple[LinkAccount, ...]:
    spans: list[list[Span]] = [[] for _ in network.links]
    for span in _spans(state, of_ports=False):
        name = _name(program, state, span["entry"])
        spans[span["place"]].append(Span(int(span["start"]), int(span["end"]), name))
    columns = (state.wires.links[name].tolist() for name in ("n_bytes", "busy", "longest"))
    return tuple(
        LinkAccount.from_totals(end, *each)
        for each in zip(network.links, *columns, spans, strict=True)
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


def _stuck_error_of(program: Program, network: Network, state: st.State) -> DimsweepError:
    runs = {i: node for i, node in enumerate(state.streams["node"].tolist()) if node != NONE}
    blocked = [
        f"{link.name}: a message of {_name(program, state, state.wires.parcels['entry'][parcel])!r}"
        for link, parcel in zip(network.links, state.wires.links["waits"].tolist(), strict=True)
        if parcel != NONE
    ]
    return stuck_error(program, state.nodes["state"].tolist(), runs, blocked)
