"""Whose messages go first: on a wafer's links, and in packets where they have priorities.

Tensor parallelism goes first, then what stages of a pipeline send each other, then all else, such
as data parallelism (FRED, section 8).
"""

from dimsweep.engine.lower.program import Program

# Lower ones go first.
OF_TENSOR = 0
BETWEEN_STAGES = 1  # messages from point to point
OF_OTHERS = 2  # what goes through a wafer's I/O controllers, too


def precedence_of(group: str) -> int:
    """The precedence of the messages of a group, by its name; "" is from point to point."""
    return {"": BETWEEN_STAGES, "tensor": OF_TENSOR}.get(group, OF_OTHERS)


def may_suspend(program: Program) -> bool:
    """Whether messages may be suspended for others: the wafer preempts, and not all messages are of
    one precedence."""
    wafer = program.communication.network.wafer
    if wafer is None or not wafer.preempts:
        return False
    found = set(map(precedence_of, program.names.flow_group))
    if len(program.communication.accesses):
        found.add(OF_OTHERS)
    return len(found) > 1
