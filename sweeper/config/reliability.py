"""How often training is interrupted, and what is done about it; what is down while it goes on."""

from pydantic import model_validator

import dimsweep.engine.reliability
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.network import Share, SomeOf
from dimsweep.sweeper.part import (
    Bandwidth,
    Count,
    Index,
    Part,
    Seconds,
    default,
    key,
    teaching,
)


class Checkpoint(Part):
    """See engine.reliability.Checkpoint.  ``interval``: of training between two, the best unless
    given; ``bandwidth`` of the storage, from all NPUs together; ``stall``: how long training stands
    still for each, until it is written unless given."""

    interval: Seconds | None = None
    bandwidth: Bandwidth | None = None
    stall: Seconds | None = None


class Outage(Part):
    """Devices or links, as network.degrade names them, of which each is ``down`` for a share of the
    time: {switch: leaf *, down: 0.03 %}; without it as long as the devices say by ``fails`` and
    ``repair``.  Of those whose names differ by numbers only, ``draw`` are simulated as down, one at
    a time."""

    switch: SomeOf = None
    link: SomeOf = None
    down: Share = None
    draw: Count = 2

    @model_validator(mode="after")
    @teaching
    def _check(self) -> "Outage":
        if (self.switch is None) == (self.link is None):
            what = "it is of nothing" if self.switch is None else "switch and link at once"
            raise DimsweepError(what, hint="such as {switch: leaf *, down: 0.03 %}")
        if self.down is not None and not 0 < self.down < 1:
            raise DimsweepError(f"{self.down:.6g} is no share of the time", where="down")
        if self.link is not None and self.down is None:
            hint = "down: 0.01 %, of the time; only devices say how often they fail"
            raise DimsweepError("a link does not say how long it is down", where="down", hint=hint)
        return self


class Repair(Part):
    """What becomes of a node of ``npus`` that breaks, as the ``share`` of all interruptions has it:
    it is back after that ``time`` in the mean."""

    time: Seconds | None = None
    npus: Count | None = None
    share: Share = default("100 %")


class Reliability(Part):
    """See engine.reliability.Reliability.  ``npu_time``: NPU-days between interruptions (a job of N
    NPUs is interrupted every ``npu_time`` / N in the mean; null: never); ``restart``: from an
    interruption until training goes on; ``spares``: how many nodes there are to take the place of
    broken ones, as many as are needed unless given, and ``repair``: of these.  ``outages``: of what
    is down while training goes on."""

    npu_time: Seconds | None = None
    restart: Seconds | None = None
    checkpoint: Checkpoint = default(Checkpoint)
    spares: Index | None = None
    repair: Repair = default(Repair)
    outages: tuple[Outage, ...] = ()

    def build(self) -> dimsweep.engine.reliability.Reliability | None:
        """What interrupts training, if anything does.  Raises :class:`DimsweepError` naming the key
        that is missing."""
        given = [self.npu_time, self.restart, *dict(self.checkpoint).values()]
        given += [self.spares, self.repair.time, *self.outages]
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
        return dimsweep.engine.reliability.Reliability(
            self.npu_time, self.restart, checkpoint, self._spares()
        )

    def _spares(self) -> dimsweep.engine.reliability.Spares | None:
        if self.spares is None:
            return None
        repair = self.repair
        for name, hint in (
            ("time", "such as 24 hour, until a broken node is back"),
            ("npus", "such as 8, the NPUs of a node"),
        ):
            if getattr(repair, name) is None:
                what = "this key needs a value where spares are counted"
                raise DimsweepError(what, where=f"repair.{name}", hint=hint)
        assert repair.time is not None
        assert repair.npus is not None
        assert repair.share is not None
        if not 0 < repair.share <= 1:
            hint = "more than 0 %, and 100 % at most"
            what = f"{repair.share:.6g} is no share of all interruptions"
            raise DimsweepError(what, where="repair.share", hint=hint)
        with key("spares"):
            return dimsweep.engine.reliability.Spares(
                self.spares, repair.npus, float(repair.time), float(repair.share)
            )
