"""Runs a folded program (:mod:`engine.kernels.messages.folding`), and unfolds what became of it.

Where the order in which two messages ask for a link at the same instant would decide, one rank does
not tell how it is for the others: the run says so (:mod:`engine.kernels.network.ties`), and all
ranks are simulated.
"""

import dataclasses

import numpy as np

from dimsweep.engine.kernels.messages.folding import Folding
from dimsweep.engine.kernels.network import events
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.growth import enlarged
from dimsweep.engine.kernels.network.kernel import run
from dimsweep.engine.kernels.network.setup import How, new_state
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.graph import Network


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
    """How all ranks, operators and links have ended."""
    links = np.append(state.wires.links, np.zeros(1, st.LINK))  # the last: nothing crosses it
    return state._replace(
        accounts=st.Accounts._make(table[folding.rank_of] for table in state.accounts),
        nodes=state.nodes[folding.node_of],
        wires=state.wires._replace(links=links[folding.link_of]),
    )
