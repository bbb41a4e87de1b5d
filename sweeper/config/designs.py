"""Which networks and which plans a study chooses from, all of which compete."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from dimsweep.engine import DimsweepError, algorithms_of, in_yaml, suggestion
from dimsweep.engine.cluster import parse_shape
from dimsweep.engine.model import Recompute
from dimsweep.engine.plan import Schedule
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.config.network import AnyFamily
from dimsweep.sweeper.config.parts.part import (
    Bandwidth,
    Bytes,
    Money,
    MoneyOrNone,
    Parsed,
    Part,
    Power,
    Time,
    Whole,
    default,
    key,
    member,
    teaching,
)
from dimsweep.sweeper.config.workload.model import Offloading

_MOST_NPUS = 10**7  # as many as a dimension of a shape may have
_Degree = Annotated[Whole, Field(ge=1)]


class Tier(Part):
    """A dimension of the network that a study chooses: which of ``blocks`` it is, with which of
    ``sizes`` (any that divides the number of NPUs, unless given), at which ``bandwidth`` of an NPU,
    such as that of one port, of two, and of four.  A switch of it has ``radix`` ports at most, and
    its collectives run any of these ``algorithms``, the configuration's own unless some are named.
    ``price``: the tier's name in cost.tiers."""

    blocks: tuple[str, ...]
    sizes: tuple[_Degree, ...] = ()
    bandwidth: tuple[Bandwidth, ...]
    latency: Time = default("1 us")
    radix: Annotated[Whole, Field(ge=2)] | None = None
    algorithms: tuple[str, ...] = ()
    price: str = ""

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        for name in ("blocks", "bandwidth"):
            if not getattr(self, name):
                raise DimsweepError("one of these is needed at least", where=name)
        known = dict[str, None]()
        for block in self.blocks:
            with key("blocks"):
                ((found, _),) = parse_shape(f"{block}(2)")
            known |= dict.fromkeys(algorithms_of(found))
        for name in self.algorithms:
            if name not in known:
                what, hint = f"{name!r} runs on none of the blocks", suggestion(name, known)
                raise DimsweepError(what, where="algorithms", hint=hint)
        return self


class Count(Part):
    """Any number of NPUs between two."""

    at_least: _Degree
    at_most: _Degree

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        if self.at_most > _MOST_NPUS:
            what = f"{self.at_most:,} NPUs; a network of a study has at most {_MOST_NPUS:,}"
            raise DimsweepError(what, where="at_most" if self.at_most > self.at_least else "")
        if self.at_most < self.at_least:
            what = f"at most {self.at_most:,} and at least {self.at_least:,} NPUs"
            raise DimsweepError(what, where="at_most", hint="no less than at_least")
        return self

    def __contains__(self, n: int) -> bool:
        return self.at_least <= n <= self.at_most

    def may_be_made_of(self, n: int) -> bool:
        """Whether one of the numbers is a multiple of ``n``."""
        return self.at_most // n * n >= self.at_least

    @property
    def text(self) -> str:
        """The number, or what they are between."""
        few, many = f"{self.at_least:,}", f"{self.at_most:,}"
        return few if few == many else f"{few} to {many}"


def _count(value: Any) -> Count:
    """A number, or what it is between."""
    if isinstance(value, Count):
        return value
    if isinstance(value, Mapping):
        return Count.of(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = "1 or more, such as 1024, or {at_least: 1024, at_most: 1152}"
        raise DimsweepError(f"{in_yaml(value)} is no number of NPUs", hint=hint)
    return Count(at_least=value, at_most=value)


def _written(count: Count) -> int | dict[str, Any]:
    return count.at_least if count.at_least == count.at_most else count.plain()


class Memory(Part):
    """What memory an NPU may have, and what one with it costs; cost.npu unless it is said."""

    size: Bytes
    price: MoneyOrNone | None = None


class Racks(Part):
    """How many racks there are ``at_most``, each of which holds so many ``npus`` and feeds so much
    ``power``, whichever is used up first; one of them is enough."""

    at_most: _Degree
    npus: _Degree | None = None
    power: Power | None = None

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        if self.npus is None and not self.power:
            what, hint = "nobody says what fits into a rack", "npus: 32, or power: 40 kW, or both"
            raise DimsweepError(what, where="npus", hint=hint)
        return self


class Networks(Part):
    """All networks of so many ``npus`` (a number, or {at_least: 1024, at_most: 1152}) from these
    ``tiers``, the innermost first, and what each of the ``generators`` makes (see
    engine.network.generators; a parameter may have a list of values, all of which compete).  NPUs
    have any of these sizes of ``memory`` (npu.memory unless some are given).  A network costs at
    most ``cost``, draws at most ``power`` and fills at most so many ``racks``, NPUs and fixed parts
    included."""

    npus: Annotated[Count, Parsed(_count, _written)]
    tiers: tuple[Tier, ...] = ()
    generators: tuple[AnyFamily, ...] = ()
    memory: tuple[Memory, ...] = ()
    cost: Money | None = None
    power: Power | None = None
    racks: Racks | None = None

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
    zero: tuple[Annotated[Whole, Field(ge=0, le=3)], ...] = ()
    recompute: tuple[Annotated[Recompute, member(Recompute)], ...] = ()
    schedule: tuple[Annotated[Schedule, member(Schedule)], ...] = ()
    offload: tuple[Offloading, ...] = ()

    @model_validator(mode="after")
    @teaching
    def _check(self) -> Self:
        for order in self.orders:
            if sorted(order) != sorted(AXES):
                what, hint = f"{', '.join(order)} are not all axes", f"such as {', '.join(AXES)}"
                raise DimsweepError(what, where="orders", hint=hint)
        return self
