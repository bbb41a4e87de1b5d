"""What follows from a design without searching: what cannot matter, and what is unbalanced."""

from engine.rules.alike import Told, alike
from engine.rules.between import SEEN, Kind, Seen, kind_of
from engine.rules.effects import (
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from engine.rules.measured import beyond_measurements
from engine.rules.provisioning import Pair, provisioning
from engine.rules.ties import Tied, ties

__all__ = [
    "SEEN",
    "Kind",
    "Pair",
    "Seen",
    "Tied",
    "Told",
    "alike",
    "beyond_measurements",
    "crosses_dimensions",
    "is_measured",
    "kind_of",
    "lone_chunks",
    "provisioning",
    "queue_matters",
    "silent_dimensions",
    "ties",
]
