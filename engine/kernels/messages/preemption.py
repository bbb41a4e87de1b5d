"""Whether messages of a program may be suspended for others."""

from engine.kernels.messages.precedence import BETWEEN_STAGES, precedence_of
from engine.lower.program import Program


def may_suspend(program: Program) -> bool:
    """Whether the wafer preempts, and not all messages are of one precedence."""
    wafer = program.communication.network.wafer
    if wafer is None or not wafer.preempts:
        return False
    groups = program.names.flow_group
    found = {precedence_of(group) if group else BETWEEN_STAGES for group in groups}
    if len(program.communication.accesses):
        found.add(precedence_of("data"))  # what goes through I/O controllers
    return len(found) > 1
