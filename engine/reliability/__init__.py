"""How often a job is interrupted, and how much of its time is left for training."""

from dimsweep.engine.reliability.checkpoint import Checkpoint
from dimsweep.engine.reliability.outages import Outage, mean_speed, share_down
from dimsweep.engine.reliability.reliability import Reliability
from dimsweep.engine.reliability.renewal import Renewal, best_interval
from dimsweep.engine.reliability.spares import Spares

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
