"""A run of ASTRA-sim's simulation."""

from __future__ import annotations

from collections.abc import Sequence

from engine.formats.astra_sim.inputs import Inputs
from engine.formats.chakra.node import Node
from engine.replicas.astra_sim.cycles import Cycles
from engine.replicas.astra_sim.program import lower


def simulate(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Cycles:
    """Simulate ``traces``, one a rank; when ``folded``, one rank of each kind.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    return lower(inputs, traces, folded=folded).run()
