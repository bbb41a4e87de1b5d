"""The keys that say what a study searches, and how; no row of one trial depends on them."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from dimsweep.engine import DimsweepError, Fidelity, format_yaml, list_algorithms, suggest_names
from dimsweep.engine.bound import Measure
from dimsweep.engine.topology import parse_shape
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.models import Recompute
from dimsweep.engine.workload.plan import Schedule
from dimsweep.sweeper.config.network import AnyFamily
from dimsweep.sweeper.config.workload.model import Offloading
from dimsweep.sweeper.part import (
    Bandwidth,
    Bandwidths,
    Bytes,
    CountKey,
    Flag,
    IndexKey,
    KeyBounds,
    Money,
    MoneyOrNone,
    Number,
    Part,
    Power,
    Seconds,
    Time,
    ValueParser,
    WholeNumber,
    default,
    list_parser,
    member_parser,
    member_type,
    naming_key,
    preserve_errors,
)

_MAX_NPUS = 10**7  # as many as a dimension of a shape may have


class Tier(Part):
    """A dimension of the network that a study chooses: which of ``blocks`` it is, with which of
    ``sizes`` (any that divides the number of NPUs, unless given), at which ``bandwidth`` of an NPU,
    such as that of one port, of two, and of four.  A switch of it has ``radix`` ports at most, and
    its collectives run any of these ``algorithms``, the configuration's own unless some are named.
    ``price``: the tier's name in cost.tiers."""

    blocks: tuple[str, ...]
    sizes: tuple[CountKey, ...] = ()
    bandwidth: tuple[Bandwidth, ...]
    latency: Time = default("1 us")
    radix: Annotated[WholeNumber, KeyBounds(at_least=2)] | None = None
    algorithms: tuple[str, ...] = ()
    price: str = ""

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for name in ("blocks", "bandwidth"):
            if not getattr(self, name):
                raise DimsweepError("one of these is needed at least", where=name)
        known = dict[str, None]()
        for block in self.blocks:
            with naming_key("blocks"):
                ((found, _),) = parse_shape(f"{block}(2)")
            known |= dict.fromkeys(list_algorithms(found))
        for name in self.algorithms:
            if name not in known:
                what, hint = f"{name!r} runs on none of the blocks", suggest_names(name, known)
                raise DimsweepError(what, where="algorithms", hint=hint)
        return self


class NpuRange(Part):
    """Any number of NPUs between two."""

    at_least: CountKey
    at_most: CountKey

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if self.at_most > _MAX_NPUS:
            what = f"{self.at_most:,} NPUs; a network of a study has at most {_MAX_NPUS:,}"
            raise DimsweepError(what, where="at_most" if self.at_most > self.at_least else "")
        if self.at_most < self.at_least:
            what = f"at most {self.at_most:,} and at least {self.at_least:,} NPUs"
            raise DimsweepError(what, where="at_most", hint="no less than at_least")
        return self

    def __contains__(self, n: int) -> bool:
        return self.at_least <= n <= self.at_most

    def has_multiple_of(self, n: int) -> bool:
        """Whether one of the numbers is a multiple of ``n``."""
        return self.at_most // n * n >= self.at_least

    @property
    def text(self) -> str:
        """The number, or what they are between."""
        few, many = f"{self.at_least:,}", f"{self.at_most:,}"
        return few if few == many else f"{few} to {many}"


def _parse_npu_range(value: Any) -> NpuRange:
    """A number, or what it is between."""
    if isinstance(value, NpuRange):
        return value
    if isinstance(value, Mapping):
        return NpuRange.from_plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = "1 or more, such as 1024, or {at_least: 1024, at_most: 1152}"
        raise DimsweepError(f"{format_yaml(value)} is no number of NPUs", hint=hint)
    return NpuRange(at_least=value, at_most=value)


def _write_npu_range(count: NpuRange) -> int | dict[str, Any]:
    return count.at_least if count.at_least == count.at_most else count.plain()


class Memory(Part):
    """What memory an NPU may have, and what one with it costs; cost.npu unless it is said."""

    size: Bytes
    price: MoneyOrNone | None = None


class Racks(Part):
    """How many racks there are ``at_most``, each of which holds so many ``npus`` and feeds so much
    ``power``, whichever is used up first; one of them is enough."""

    at_most: CountKey
    npus: CountKey | None = None
    power: Power | None = None

    @model_validator(mode="after")
    @preserve_errors
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

    npus: Annotated[NpuRange, ValueParser(_parse_npu_range, _write_npu_range)]
    tiers: tuple[Tier, ...] = ()
    generators: tuple[AnyFamily, ...] = ()
    memory: tuple[Memory, ...] = ()
    cost: Money | None = None
    power: Power | None = None
    racks: Racks | None = None

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if not self.tiers and not self.generators:
            raise DimsweepError("a network has a tier at least, or a generator", where="tiers")
        return self


class Plans(Part):
    """All plans with these degrees, of which ``data`` takes what the others leave; an axis of which
    nothing is said has a degree of 1.  Each is placed in each of the ``orders``, innermost first.
    Other keys have the workload's own value unless several are given."""

    tensor: tuple[CountKey, ...] = (1,)
    context: tuple[CountKey, ...] = (1,)
    expert: tuple[CountKey, ...] = (1,)
    pipeline: tuple[CountKey, ...] = (1,)
    orders: tuple[tuple[str, ...], ...] = default(
        [
            ["tensor", "context", "expert", "data", "pipeline"],
            ["tensor", "pipeline", "context", "expert", "data"],
        ]
    )
    micro_batch: tuple[CountKey, ...] = ()
    interleave: tuple[CountKey, ...] = ()
    zero: tuple[Annotated[WholeNumber, KeyBounds(at_least=0, at_most=3)], ...] = ()
    recompute: tuple[Annotated[Recompute, member_type(Recompute)], ...] = ()
    schedule: tuple[Annotated[Schedule, member_type(Schedule)], ...] = ()
    offload: tuple[Offloading, ...] = ()

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for order in self.orders:
            if sorted(order) != sorted(AXES):
                what, hint = f"{', '.join(order)} are not all axes", f"such as {', '.join(AXES)}"
                raise DimsweepError(what, where="orders", hint=hint)
        return self


class Search(Part):
    """``batch`` trials at most are asked for at a time, one batch ahead of the results (when they
    are there, where slopes are learnt from), so that a study does not depend on how many actors run
    it.  ``enqueue``: also try the equal split, the traffic-proportional one and the bound's,
    first.  ``sampler`` is a name in :data:`sweeper.search.SAMPLERS`, which takes ``options``."""

    RENAMED: ClassVar = {"wave": "batch"}

    sampler: str
    seed: Annotated[WholeNumber, KeyBounds(at_least=0, at_most=2**32 - 1)] = (
        0  # what NumPy and Optuna take
    )
    batch: CountKey = 8
    enqueue: Flag = True
    options: dict[str, Any] = default(dict)


class Split(Part):
    """Bandwidths on a grid of ``step`` that sum to ``total``, or for which the network costs at
    most ``cost`` (such as "20 MUSD", NPUs and fixed parts included), or that are free up to
    ``max``; not searched at all unless one is given.  ``bisection``: what the machine's halves
    can send each other at least, one way; alone, the least bandwidths that give it.  ``min`` and
    ``max`` are one value or a list; ``constraints`` such as "b0 >= b1", "b2 + b3 == 200 GB/s";
    ``known`` lists splits to try first.  ``parts``: bandwidths are those of parts that can be
    bought, by the kinds that ``topology.links`` names; a total and a cost are then what they
    come to at most."""

    total: Bandwidth | None = None
    cost: Money | None = None
    bisection: Bandwidth | None = None
    min: Bandwidths = default("1 GB/s")
    max: Bandwidths | None = None
    step: Bandwidth = default("0.1 GB/s")
    constraints: tuple[str, ...] = ()
    known: tuple[Bandwidths, ...] = ()
    parts: Flag = False

    @property
    def is_searched(self) -> bool:
        """Whether anything says which bandwidths there are."""
        limits = (self.total, self.cost, self.bisection, self.max)
        return self.parts or any(each is not None for each in limits)


class Parameter(Part):
    """The values that a key may take: a list of ``values``, or from ``low`` to ``high``."""

    NESTED: ClassVar = (
        "a searched key is a dotted one, such as {collective.chunks: {values: [16, 64]}}"
    )

    values: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    step: Any = None
    log: Flag = False

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        ranged = [name for name in ("low", "high", "step") if getattr(self, name) is not None]
        if self.values is None:
            for name in ("low", "high"):
                if getattr(self, name) is None:
                    hint = "or give values, such as {values: [16, 64]}"
                    raise DimsweepError("a range needs low and high", where=name, hint=hint)
        elif not self.values:
            raise DimsweepError("values is a list with at least one entry", where="values")
        elif ranged or self.log:
            where = ranged[0] if ranged else "log"
            raise DimsweepError("give values, or low and high, not both", where=where)
        return self


class Space(Part):
    """What is searched: the split of the bandwidth, and any other keys, each with ``values`` or
    with ``low`` and ``high`` (and ``step``, ``log``); or all ``network`` s and ``plan`` s, each of
    which is closed by a bound, or simulated."""

    bandwidth: Split = default(Split)
    parameters: dict[str, Parameter] = default(dict)
    network: Networks | None = None
    plan: Plans | None = None


class Role(StrEnum):
    """What an axis is to the one who asks: what can be built or run, or what has to be stood."""

    DECISION = "decision"
    SCENARIO = "scenario"


def _parse_role(value: Any) -> Any:
    """A role, or the weights of a scenario's values by their texts."""
    if not isinstance(value, Mapping):
        return member_parser(Role)(value)
    for name, weight in value.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < math.inf:
            what = f"{format_yaml(weight)} is no weight"
            raise DimsweepError(what, where=str(name), hint="zero or more, and finite, such as 2")
    if not any(value.values()):
        raise DimsweepError(
            "no value has a weight",
            hint="at least one that is more than zero, such as {a: 2, b: 1}",
        )
    return {str(name): float(weight) for name, weight in value.items()}


# What an axis is; a mapping of weights makes it a scenario whose values count so much.
RoleOrWeights = Annotated[Role | dict[str, float], ValueParser(_parse_role, choices=map(str, Role))]


class Budget(Part):
    """Trials for each search, which stops earlier when its best trial is within ``gap`` of the
    proven bound: 1e-4 is 0.01 %."""

    RENAMED: ClassVar = {"points": "trials"}

    trials: CountKey = 300
    gap: Annotated[Number, KeyBounds(at_least=0)] | None = None

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if self.gap is not None and not self.gap <= 1:
            what = f"a gap of {self.gap:.0%}: every first trial is within it"
            asked = f"did you mean {self.gap / 100:g}? " if self.gap <= 100 else ""
            raise DimsweepError(what, where="gap", hint=f"{asked}0.05 is 5 %")
        return self


class Recheck(Part):
    """How many of a search's best designs are simulated again, and in which ``fidelity``.

    Lists go on from one to the next: ``top: [8, 2], fidelity: [flow, packet]`` simulates the best
    8 by flows, and the best 2 of those by packets.
    """

    top: IndexKey | tuple[IndexKey, ...] = 0
    fidelity: Annotated[
        Fidelity | tuple[Fidelity, ...], ValueParser(list_parser(member_parser(Fidelity)))
    ] = default("message")

    @property
    def rungs(self) -> tuple[tuple[Fidelity, int], ...]:
        """Each fidelity with how many designs it simulates; none if none are simulated again."""
        tops = self.top if isinstance(self.top, tuple) else (self.top,)
        kinds = self.fidelity if isinstance(self.fidelity, tuple) else (self.fidelity,)
        return tuple(zip(kinds, tops, strict=True)) if any(tops) else ()

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        tops = self.top if isinstance(self.top, tuple) else (self.top,)
        kinds = self.fidelity if isinstance(self.fidelity, tuple) else (self.fidelity,)
        what, where, hint = "", "top", ""
        if len(tops) != len(kinds):
            what, hint = f"{len(tops)} numbers for {len(kinds)} fidelities", "one for each"
        elif list(tops) != sorted(tops, reverse=True):
            what = f"{', '.join(map(str, tops))} do not fall"
            hint = "each fidelity looks at the best of the one before"
        elif len(tops) > 1 and not all(tops):
            what, hint = "a fidelity that simulates no design", "leave it out"
        elif Fidelity.PHASE in kinds or len(set(kinds)) < len(kinds):
            what, where = f"{', '.join(kinds)} for designs found by phases", "fidelity"
            hint = "message, flow and packet, each once"
        if what:
            raise DimsweepError(what, where=where, hint=hint)
        return self


def _parse_what_if(value: Any) -> Any:
    """Names, each with what it changes; none where nothing is given."""
    if value is None or value == DEFAULT:
        return value or {}
    hint = "such as {800G: {'topology.bandwidth[1]': 100 GB/s}, optics: {cost.tiers.pod: x2}}"
    if not isinstance(value, Mapping):
        raise DimsweepError(f"{value!r} names no changes", hint=hint)
    for name, changes in value.items():
        if not isinstance(name, str) or not name.strip():
            raise DimsweepError(f"{name!r} is no name of a change", hint=hint)
        if not isinstance(changes, Mapping) or not changes:
            raise DimsweepError(f"{changes!r} is no mapping of keys", where=name, hint=hint)
    return {name: {str(key): each for key, each in own.items()} for name, own in value.items()}


# What is changed around the best design when the search is over: by name, keys with the values that
# they get, or with factors such as x2; "default" for what can be asked of any design.
DEFAULT = "default"
WhatIf = Annotated[dict[str, dict[str, Any]] | str, ValueParser(_parse_what_if)]


class Portfolio(Part):
    """One split for several workloads, or one of ``space.network``, on which each has a plan of its
    own.  They are options of the config group with a weight each: the study searches each one's
    own optimum, and then the split or network that is best for all by ``measure``: weighted_time,
    worst_regret, or cvar at ``level``."""

    workloads: dict[str, Number] = default(dict)
    measure: Annotated[Measure, member_type(Measure)] = default("worst_regret")
    level: Number = 0.9

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for name, weight in self.workloads.items():
            if not (weight >= 0 and math.isfinite(weight)):
                what, where = f"a weight of {weight:g}", f"workloads.{name}"
                raise DimsweepError(what, where=where, hint="zero or more, and finite")
        if self.workloads and not any(self.workloads.values()):
            what, hint = "no workload has a weight", "at least one that is more than zero"
            raise DimsweepError(what, where="workloads", hint=hint)
        return self


class Executor(Part):
    """Where trials are simulated: Ray actors on this machine (``local``) or on a running Ray
    cluster (``address``), or in this process (``inline``).  ``timeout`` is for the simulation of a
    trial, once a worker has begun it, and ``memory`` is what a trial may take beyond what its
    worker has; the inline executor has neither."""

    mode: str = "local"
    actors: WholeNumber | None = None
    address: str | None = None
    timeout: Seconds | None = None
    memory: Bytes | None = None
