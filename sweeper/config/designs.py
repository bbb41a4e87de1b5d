"""Which networks and which plans a study chooses from, all of which compete."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dimsweep.engine import DimsweepError
from dimsweep.engine.cluster import parse_shape
from dimsweep.engine.model import Recompute
from dimsweep.engine.plan import Schedule
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.config.network import AnyGenerator
from dimsweep.sweeper.config.parts.part import (
    Bandwidth,
    Money,
    Part,
    Power,
    Time,
    Whole,
    default,
    key,
    member,
    teaching,
)

_Degree = Annotated[Whole, Field(ge=1)]


class Tier(Part):
    """A dimension of the network that a study chooses: which of ``blocks`` it is, with which of
    ``sizes`` (any that divides the number of NPUs, unless given), at which ``bandwidth`` of an NPU,
    such as that of one port, of two, and of four.  ``price``: the tier's name in cost.tiers."""

    blocks: tuple[str, ...]
    sizes: tuple[_Degree, ...] = ()
    bandwidth: tuple[Bandwidth, ...]
    latency: Time = default("1 us")
    price: str = ""

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        for name in ("blocks", "bandwidth"):
            if not getattr(self, name):
                raise DimsweepError("one of these is needed at least", where=name)
        for block in self.blocks:
            with key("blocks"):
                parse_shape(f"{block}(2)")
        return self


class Networks(Part):
    """All networks of so many ``npus`` from these ``tiers``, the innermost first, and what each of
    the ``generators`` makes (see engine.network.generators), that cost at most ``cost`` and draw at
    most ``power``, NPUs and fixed parts included."""

    npus: _Degree
    tiers: tuple[Tier, ...] = ()
    generators: tuple[AnyGenerator, ...] = ()
    cost: Money | None = None
    power: Power | None = None

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        if not self.tiers and not self.generators:
            raise DimsweepError("a network has a tier at least, or a generator", where="tiers")
        return self


class Plans(Part):
    """All plans with these degrees, of which ``data`` takes what the others leave; an axis of which
    nothing is said has a degree of 1.  Each is placed in each of the ``orders``, innermost first.
    Other keys have the workload's own value unless several are given."""

    tensor: tuple[_Degree, ...] = (1,)
    context: tuple[_Degree, ...] = (1,)
    expert: tuple[_Degree, ...] = (1,)
    pipeline: tuple[_Degree, ...] = (1,)
    orders: tuple[tuple[str, ...], ...] = default(
        [
            ["tensor", "context", "expert", "data", "pipeline"],
            ["tensor", "pipeline", "context", "expert", "data"],
        ]
    )
    micro_batch: tuple[_Degree, ...] = ()
    interleave: tuple[_Degree, ...] = ()
    zero: tuple[Whole, ...] = ()
    recompute: tuple[Annotated[Recompute, member(Recompute)], ...] = ()
    schedule: tuple[Annotated[Schedule, member(Schedule)], ...] = ()

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        for order in self.orders:
            if sorted(order) != sorted(AXES):
                what, hint = f"{', '.join(order)} are not all axes", f"such as {', '.join(AXES)}"
                raise DimsweepError(what, where="orders", hint=hint)
        return self
