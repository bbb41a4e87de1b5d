"""Folding: one rank is simulated for all that are provably alike, with one link for all of theirs.

:mod:`engine.kernels.network.orbits` looks for alike ranks, :mod:`engine.kernels.network.covering`
makes sure that they are.  What is left of a program then is a smaller one: as many ranks as
colours, and the links that their messages cross, each crossed by as many messages as any of those
that it stands for.  A phase waits for all members of its line; alike ones come together, so it
waits for one of each colour.

Where the order in which two messages ask for a link at the same instant would decide, one rank does
not tell how it is for the others: the run says so (:mod:`engine.kernels.network.ties`), and all
ranks are simulated.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from engine.kernels.core.none import NONE
from engine.kernels.network import records
from engine.kernels.network import state as st
from engine.kernels.network.covering import twins_of
from engine.kernels.network.kernel import run
from engine.kernels.network.orbits import parts_of, refine
from engine.kernels.network.quotient import numbers, quotient
from engine.kernels.network.setup import enlarged, new_state
from engine.kernels.network.tables import Tables
from engine.lower.program import Longs, Program
from engine.network.graph import Network


@dataclass(frozen=True)
class Folding:
    """A program of the ranks that stand for others, and who stands for whom."""

    program: Program
    tables: Tables
    n_ranks: int
    n_sheets: int  # ranks for which each of them stands
    links: Longs  # those that stand for others
    rank_of: Longs  # (R,) the rank in ``program`` that stands for each
    node_of: Longs  # (N,) likewise
    link_of: Longs  # (links,) likewise, in ``links``; NONE: nothing crosses it


def _folding_of(program: Program, network: Network, tables: Tables) -> Folding | None:
    """How the program folds, found once for all its points; None if no rank is like another one,
    switches reduce, or accesses share servers."""
    if not program.folded:
        program.folded.append(_fold(program, network, tables))
    folding: Folding | None = program.folded[0]
    return folding


def _fold(program: Program, network: Network, tables: Tables) -> Folding | None:
    s = program.structure
    if tables.wafer or len(tables.reductions) or len(s.services):
        return None
    parts = parts_of(s, tables)
    colour = refine(parts, s, tables, network.links)
    twins = None if colour is None else twins_of(parts, s, tables, network.links, colour)
    if twins is None:
        return None
    structure, small = quotient(s, tables, parts, twins)
    return Folding(
        program=dataclasses.replace(program, structure=structure, tabled=[], folded=[]),
        tables=small,
        n_ranks=len(twins.first),
        n_sheets=len(twins.colour) // len(twins.first),
        links=np.unique(twins.link[twins.link != NONE]),
        rank_of=twins.colour,
        node_of=numbers(twins.node),
        link_of=numbers(twins.link),
    )


def run_folded(
    program: Program, network: Network, tables: Tables
) -> tuple[st.State, int] | tuple[None, None]:
    """The state in which a run of all ranks ends, and how many of them were simulated; None where
    it does not fold, ties decide, or it does not finish."""
    folding = _folding_of(program, network, tables)
    if folding is None:
        return None, None
    point = dataclasses.replace(
        folding.program, bandwidth=program.bandwidth, latency=program.latency
    )
    state = new_state(
        point, folding.tables, network, carried=st.BY_LINKS, record=False, folded=folding.links
    )
    while (outcome := run(state)) == st.FULL:
        state = enlarged(state)
    n_messages = folding.n_sheets * int(state.wires.clock.counts[st.N_MESSAGES])
    if outcome != st.FINISHED or n_messages > program.cluster.network.max_messages:
        return None, None
    state.wires.clock.counts[st.N_MESSAGES] = n_messages
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
