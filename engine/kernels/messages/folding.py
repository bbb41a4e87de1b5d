"""Folding: one rank is simulated for all that are provably alike, with one link for all of theirs.

:mod:`engine.kernels.messages.partition` finds ranks that are provably alike.  What is left of a
program then is a smaller one: as many ranks as colours, and the links that their messages cross,
each crossed by as many messages as any of those that it stands for.  A phase waits for all members
of its line; alike ones come together, so it waits for one of each colour.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.partition import refine, twins_of
from dimsweep.engine.kernels.messages.parts import parts_of
from dimsweep.engine.kernels.messages.quotient import numbers, quotient
from dimsweep.engine.kernels.messages.tables import Tables
from dimsweep.engine.lower.program import Longs, Program
from dimsweep.engine.network.graph import Network


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


def folding_of(program: Program, network: Network, tables: Tables) -> Folding | None:
    """How the program folds, at all its points; None if no rank is like another one, switches
    reduce, or accesses share servers."""
    s = program.structure
    if tables.wafer or len(tables.reductions) or len(s.services):
        return None
    parts = parts_of(s, tables, network.links)
    colour = refine(parts, s.shape.n_classes)
    twins = None if colour is None else twins_of(parts, colour)
    if twins is None:
        return None
    structure, small = quotient(s, tables, parts, twins)
    return Folding(
        program=dataclasses.replace(program, structure=structure),
        tables=small,
        n_ranks=len(twins.first),
        n_sheets=len(twins.colour) // len(twins.first),
        links=np.unique(twins.link[twins.link != NONE]),
        rank_of=twins.colour,
        node_of=numbers(twins.node),
        link_of=numbers(twins.link),
    )
