"""Keys of interruptions, checkpoints, spare nodes and outages."""

from typing import Annotated

from pydantic import model_validator

from dimsweep.engine import DimsweepError
from dimsweep.engine import reliability as engine
from dimsweep.engine.settings import Bounds
from dimsweep.sweeper.config.network import SelectionKey, ShareKey, parse_share
from dimsweep.sweeper.part import (
    CountKey,
    KeyBounds,
    Part,
    Quantity,
    Seconds,
    ValueParser,
    WholeNumber,
    bounded_parser,
    default,
    mirror,
    preserve_errors,
)

_SHARE = Bounds(above=0, at_most=1, hint="more than 0 %, and 100 % at most")


class Checkpoint(mirror(engine.Checkpoint)):  # type: ignore[misc]
    """Checkpoints of training: the settings of :class:`engine.reliability.Checkpoint`."""


class Outage(Part):
    """Devices or links that are down for a share of time while training continues.

    An example is {switch: leaf *, down: 0.03 %}.
    """

    #: Devices, named as in network.degrade.
    switch: SelectionKey = None
    #: Links, named as in network.degrade.
    link: SelectionKey = None
    #: Share of the time in which each is down; by default from the devices' `fails` and `repair`.
    down: ShareKey = None
    #: Number of outages to simulate, one at a time, among parts whose names differ in numbers only.
    draw: CountKey = 2

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> "Outage":
        if (self.switch is None) == (self.link is None):
            problem, hint = "give switch or link", "such as {switch: leaf *, down: 0.03 %}"
            if self.switch is not None:
                raise DimsweepError(f"{problem}, not both", hint=hint, code="conflict")
            raise DimsweepError(problem, hint=hint, code="missing")
        if self.down is not None and not 0 < self.down < 1:
            problem = f"{self.down:.6g}; it must be more than 0 % and less than 100 %"
            raise DimsweepError(problem, where="down", code="out-of-range")
        if self.link is not None and self.down is None:
            problem = "a link needs the share of the time in which it is down"
            hint = "such as down: 0.01 %; only devices have a rate of failures"
            raise DimsweepError(problem, where="down", hint=hint, code="missing")
        return self


class Repair(Part):
    """How long the repair of a broken node takes."""

    #: Mean time until a broken node is back.
    time: Seconds | None = None
    #: NPUs of a node.
    npus: CountKey | None = None
    #: Share of all interruptions that break a node.
    share: Annotated[Quantity, ValueParser(bounded_parser(parse_share, _SHARE))] = default("100 %")


class Reliability(
    mirror(  # type: ignore[misc]
        engine.Reliability,
        without=("checkpoint", "spares"),
        unset=("npu_time", "restart"),
        restart=Seconds,
    )
):
    """Interruptions of training: the settings of :class:`engine.reliability.Reliability`."""

    #: Checkpoints of training.
    checkpoint: Checkpoint = default(Checkpoint)
    #: Spare nodes; by default as many as are needed.
    spares: Annotated[WholeNumber, KeyBounds(at_least=0, at_most=100_000)] | None = None
    #: The repair of broken nodes, where spares are counted.
    repair: Repair = default(Repair)
    #: Devices and links that are down while training continues.
    outages: tuple[Outage, ...] = ()

    def build(self) -> engine.Reliability | None:
        """Return the engine's model of interruptions; None if no rate of interruptions is given.

        Raises :class:`DimsweepError` that names a missing key.
        """
        given = [self.npu_time, self.restart, *dict(self.checkpoint).values()]
        given += [self.spares, self.repair.time, *self.outages]
        if all(value is None for value in given):
            return None
        for name, hint in (
            ("npu_time", "such as 2000 day, of NPUs, or a list (reliability=llama3)"),
            ("restart", "such as 10 min, from an interruption until training resumes"),
        ):
            if getattr(self, name) is None:
                problem = "this key needs a value"
                raise DimsweepError(problem, where=name, hint=hint, code="missing")
        checkpoint = engine.Checkpoint(**dict(self.checkpoint))
        return engine.Reliability(self.npu_time, self.restart, checkpoint, self._spares())

    def _spares(self) -> engine.Spares | None:
        if self.spares is None:
            return None
        repair = self.repair
        for name, hint in (
            ("time", "such as 24 hour, until a broken node is back"),
            ("npus", "such as 8, the NPUs of a node"),
        ):
            if getattr(repair, name) is None:
                problem = "reliability.spares needs this key"
                raise DimsweepError(problem, where=f"repair.{name}", hint=hint, code="missing")
        assert repair.time is not None
        assert repair.npus is not None
        return engine.Spares(self.spares, repair.npus, float(repair.time), float(repair.share))
