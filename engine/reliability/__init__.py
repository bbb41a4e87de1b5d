"""How often a job is interrupted, and how much of its time is left for training."""

from dimsweep.engine.reliability.interruptions import (
    Checkpoint,
    Outage,
    Reliability,
    Renewal,
    Spares,
    compute_mean_speed,
    compute_share_down,
    find_best_interval,
)

__all__ = [
    "Checkpoint",
    "Outage",
    "Reliability",
    "Renewal",
    "Spares",
    "compute_mean_speed",
    "compute_share_down",
    "find_best_interval",
]
