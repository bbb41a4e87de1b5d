"""What follows from a design without searching: what cannot matter, and what is unbalanced."""

from engine.rules.effects import (
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from engine.rules.provisioning import Pair, provisioning

__all__ = [
    "Pair",
    "crosses_dimensions",
    "is_measured",
    "lone_chunks",
    "provisioning",
    "queue_matters",
    "silent_dimensions",
]
