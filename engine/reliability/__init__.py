"""How often failures interrupt a training job, and which fraction of its time still trains."""

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
