"""Whether messages of a program may be suspended for others."""

import numpy as np

from engine.cluster.memory import EdgeIo
from engine.kernels.messages.precedence import BETWEEN_STAGES, precedence_of
from engine.lower.program import NodeKind, Program


def may_suspend(program: Program) -> bool:
    """Whether the wafer preempts, and not all messages are of one precedence."""
    wafer = program.cluster.network.wafer
    if wafer is None or not wafer.preempts:
        return False
    groups = program.names.flow_group
    found = {precedence_of(group) if group else BETWEEN_STAGES for group in groups}
    if isinstance(program.cluster.memory, EdgeIo):
        loads = np.any(program.structure.nodes["kind"] == NodeKind.ACCESS)
        found |= {precedence_of("data")} if loads else set()  # what goes through I/O controllers
    return len(found) > 1
