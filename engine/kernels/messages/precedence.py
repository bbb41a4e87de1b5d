"""Whose messages go first: on a wafer's links, and in packets where they have priorities.

Tensor parallelism goes first, then what stages of a pipeline send each other, then all else, such
as data parallelism (FRED, section 8).
"""

BETWEEN_STAGES = 1  # the precedence of messages from point to point; lower ones go first
_TENSOR, _OTHERS = 0, 2


def precedence_of(group: str) -> int:
    """The precedence of a collective of a group, by the group's name; lower ones go first."""
    return _TENSOR if group == "tensor" else _OTHERS
