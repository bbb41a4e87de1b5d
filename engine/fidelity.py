"""Which kernel simulates, and so what is seen of a network."""

from enum import StrEnum


class Fidelity(StrEnum):
    """``PHASE``: phases of chunks on dimensions; all others know every rank, message and link.

    ``MESSAGE``: the messages of a link go one after another; ``FLOW``: they share it in the max-min
    fair way; ``PACKET``: they go packet by packet, through buffers and under congestion control.
    """

    PHASE = "phase"
    MESSAGE = "message"
    FLOW = "flow"
    PACKET = "packet"
