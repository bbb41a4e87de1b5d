"""How often training is interrupted, and what is done about it."""

import dimsweep.engine.reliability
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.parts.part import Bandwidth, Part, Seconds, default, key


class Checkpoint(Part):
    """See engine.reliability.Checkpoint.  ``interval``: of training between two, the best unless
    given; ``bandwidth`` of the storage, from all NPUs together; ``stall``: how long training stands
    still for each, until it is written unless given."""

    interval: Seconds | None = None
    bandwidth: Bandwidth | None = None
    stall: Seconds | None = None


class Reliability(Part):
    """See engine.reliability.Reliability.  ``npu_time``: NPU-days between interruptions (a job of N
    NPUs is interrupted every ``npu_time`` / N in the mean; null: never); ``restart``: from an
    interruption until training goes on."""

    npu_time: Seconds | None = None
    restart: Seconds | None = None
    checkpoint: Checkpoint = default(Checkpoint)

    def build(self) -> dimsweep.engine.reliability.Reliability | None:
        """What interrupts training, if anything does.  Raises :class:`DimsweepError` naming the key
        that is missing."""
        given = [self.npu_time, self.restart, *dict(self.checkpoint).values()]
        if all(value is None for value in given):
            return None
        for name, hint in (
            ("npu_time", "such as 2000 day, of NPUs, or a list (reliability=llama3)"),
            ("restart", "such as 10 min, from an interruption until training goes on"),
        ):
            if getattr(self, name) is None:
                raise DimsweepError("this key needs a value", where=name, hint=hint)
        assert self.npu_time is not None
        assert self.restart is not None
        with key("checkpoint"):
            checkpoint = dimsweep.engine.reliability.Checkpoint(**dict(self.checkpoint))
        return dimsweep.engine.reliability.Reliability(self.npu_time, self.restart, checkpoint)
