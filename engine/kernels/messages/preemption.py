"""Whether messages of a program may be suspended for others."""

import numpy as np

from engine.cluster.memory import EdgeIo
from engine.kernels.messages.precedence import BETWEEN_STAGES, rank_of
from engine.lower.program import NodeKind, Program


def may_suspend(program: Program) -> bool:
    """Whether the wafer preempts, and not all messages are of one rank."""
    wafer = program.cluster.network.wafer
    if wafer is None or not wafer.preempts:
        return False
    ranks = {rank_of(group) if group else BETWEEN_STAGES for group in program.names.flow_group}
    if isinstance(program.cluster.memory, EdgeIo):
        loads = np.any(program.structure.nodes["kind"] == NodeKind.ACCESS)
        ranks |= {rank_of("data")} if loads else set()  # what goes through I/O controllers
    return len(ranks) > 1
