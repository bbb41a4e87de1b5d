"""Runs a folded program (:mod:`engine.kernels.messages.folding`), and unfolds what became of it.

Where the order in which two messages ask for a link at the same instant would decide, one rank does
not tell how it is for the others: the run says so (:mod:`engine.kernels.network.ties`), and all
ranks are simulated.
"""

import dataclasses

import numpy as np

from engine.kernels.messages.folding import Folding
from engine.kernels.network import events, records
from engine.kernels.network import state as st
from engine.kernels.network.kernel import run
from engine.kernels.network.setup import How, enlarged, new_state
from engine.lower.program import Program
from engine.network.graph import Network


def run_folded(
    folding: Folding, program: Program, network: Network
) -> tuple[st.State, int] | tuple[None, None]:
    """The state in which a run of all ranks at the program's point ends, and how many of them were
    simulated; None where ties decide, or it does not finish."""
    point = dataclasses.replace(
        folding.program, bandwidth=program.bandwidth, latency=program.latency
    )
    state = new_state(point, folding.tables, network, How(folded=folding.links))
    while (outcome := run(state)) == events.FULL:
        state = enlarged(state)
    counts = state.wires.clock.counts
    n_messages = folding.n_sheets * int(counts["n_messages"][0])
    if outcome != events.FINISHED or n_messages > program.communication.network.max_messages:
        return None, None
    counts["n_messages"] = n_messages
    return _unfolded(folding, state), folding.n_ranks


def _unfolded(folding: Folding, state: st.State) -> st.State:
    """What all ranks, operators and links have come to."""
    rank, accounts = folding.rank_of, state.accounts
    links = np.append(state.wires.links, np.zeros(1, records.LINK))  # the last: nothing crosses it
    return state._replace(
        accounts=st.Accounts(accounts.ranks[rank], accounts.dims[rank], accounts.tallies[rank]),
        nodes=state.nodes[folding.node_of],
        wires=state.wires._replace(links=links[folding.link_of]),
    )
