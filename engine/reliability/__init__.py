"""How often a job is interrupted, and how much of its time is left for training."""

from dimsweep.engine.reliability.interruptions import (
    Checkpoint,
    Outage,
    Reliability,
    Renewal,
    Spares,
    best_interval,
    mean_speed,
    share_down,
)

__all__ = [
    "Checkpoint",
    "Outage",
    "Reliability",
    "Renewal",
    "Spares",
    "best_interval",
    "mean_speed",
    "share_down",
]
