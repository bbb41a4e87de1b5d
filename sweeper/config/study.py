"""Keys of a study's search space, search and questions.

The results of a trial do not depend on them.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from dimsweep.engine import (
    Code,
    DimsweepError,
    Fidelity,
    format_yaml,
    list_algorithms,
    suggest_names,
)
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

_MAX_NPUS = 10**7  # the largest size of a dimension


class Tier(Part):
    """A dimension of the network whose block, size and bandwidth a study chooses."""

    #: Building blocks to choose from.
    blocks: tuple[str, ...]
    #: Sizes to choose from; by default all that divide the number of NPUs.
    sizes: tuple[CountKey, ...] = ()
    #: Bandwidths of an NPU to choose from, such as those of one, two and four ports.
    bandwidth: tuple[Bandwidth, ...]
    #: Latency per hop.
    latency: Time = default("1 us")
    #: Maximum number of ports of a switch.
    radix: Annotated[WholeNumber, KeyBounds(at_least=2)] | None = None
    #: Algorithms to choose from; by default the configuration's.
    algorithms: tuple[str, ...] = ()
    #: Name of the tier in cost.tiers.
    price: str = ""

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for name in ("blocks", "bandwidth"):
            if not getattr(self, name):
                raise DimsweepError("the list is empty", where=name, code="missing")
        known = dict[str, None]()
        for block in self.blocks:
            with naming_key("blocks"):
                ((found, _),) = parse_shape(f"{block}(2)")
            known |= dict.fromkeys(list_algorithms(found))
        for name in self.algorithms:
            if name not in known:
                problem = f"algorithm {name!r} runs on none of the blocks"
                hint = suggest_names(name, known)
                raise DimsweepError(problem, where="algorithms", hint=hint, code="unknown-name")
        return self


class NpuRange(Part):
    """A range of numbers of NPUs, from ``at_least`` to ``at_most``."""

    at_least: CountKey
    at_most: CountKey

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if self.at_most > _MAX_NPUS:
            problem = f"{self.at_most:,} NPUs; it must be {_MAX_NPUS:,} or less"
            where = "at_most" if self.at_most > self.at_least else ""
            raise DimsweepError(problem, where=where, code="out-of-range")
        if self.at_most < self.at_least:
            problem = f"{self.at_most:,}; it must be {self.at_least:,} (at_least) or more"
            raise DimsweepError(problem, where="at_most", code="out-of-range")
        return self

    def __contains__(self, n: int) -> bool:
        return self.at_least <= n <= self.at_most

    def has_multiple_of(self, n: int) -> bool:
        """Return whether the range has a multiple of ``n``."""
        return self.at_most // n * n >= self.at_least

    @property
    def text(self) -> str:
        """The range as text: one number, or "1,024 to 1,152"."""
        few, many = f"{self.at_least:,}", f"{self.at_most:,}"
        return few if few == many else f"{few} to {many}"


def _parse_npu_range(value: Any) -> NpuRange:
    """Parse a number of NPUs, or a range of numbers."""
    if isinstance(value, NpuRange):
        return value
    if isinstance(value, Mapping):
        return NpuRange.from_plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = "1 or more, such as 1024, or {at_least: 1024, at_most: 1152}"
        problem = f"{format_yaml(value)} is not a number of NPUs"
        code: Code = "wrong-type" if isinstance(value, bool | float | str) else "out-of-range"
        raise DimsweepError(problem, hint=hint, code=code)
    return NpuRange(at_least=value, at_most=value)


def _write_npu_range(count: NpuRange) -> int | dict[str, Any]:
    return count.at_least if count.at_least == count.at_most else count.plain()


class Memory(Part):
    """A size of NPU memory that a study may choose, with its price."""

    size: Bytes
    #: Price of an NPU with it; cost.npu by default.
    price: MoneyOrNone | None = None


class Racks(Part):
    """The racks available for the cluster. Give the limit of a rack in NPUs, in power, or both."""

    #: Maximum number of racks.
    at_most: CountKey
    #: NPUs that fit into a rack.
    npus: CountKey | None = None
    #: Power of a rack.
    power: Power | None = None

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if self.npus is None and not self.power:
            problem = "a rack needs a limit in NPUs or power"
            hint = "such as npus: 32, or power: 40 kW, or both"
            raise DimsweepError(problem, where="npus", hint=hint, code="missing")
        return self


class Networks(Part):
    """The networks that a study may choose from.

    Limits on cost and power include NPUs and fixed parts.
    """

    #: Number of NPUs, or {at_least: 1024, at_most: 1152}.
    npus: Annotated[NpuRange, ValueParser(_parse_npu_range, _write_npu_range)]
    #: Dimensions to choose from, the innermost first.
    tiers: tuple[Tier, ...] = ()
    #: Generated networks (:mod:`engine.network.generators`); a parameter may have several values.
    generators: tuple[AnyFamily, ...] = ()
    #: Memory sizes of NPUs to choose from; npu.memory by default.
    memory: tuple[Memory, ...] = ()
    #: Maximum cost of a network.
    cost: Money | None = None
    #: Maximum power of a network.
    power: Power | None = None
    #: Maximum number of racks.
    racks: Racks | None = None

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if not self.tiers and not self.generators:
            problem, hint = "a space of networks needs tiers or generators", "give one of them"
            raise DimsweepError(problem, where="tiers", hint=hint, code="missing")
        return self


class Plans(Part):
    """The parallel plans that a study may choose from: all combinations of the given degrees.

    Data parallelism takes the remaining NPUs. Each plan is placed on the network in each of the
    ``orders`` of axes, innermost first. Keys without values here keep the workload's value.
    """

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
                problem = f"{', '.join(order)} are not all axes, each once"
                hint = f"such as {', '.join(AXES)}"
                raise DimsweepError(problem, where="orders", hint=hint, code="mismatch")
        return self


class Search(Part):
    """How each cell is searched.

    Batches of trials are requested one batch ahead of the results, so that a study does not depend
    on its number of actors. A sampler that learns from slopes gets all results first.
    """

    RENAMED: ClassVar = {"wave": "batch"}

    #: Name in :data:`sweeper.search.SAMPLERS`.
    sampler: str
    #: Seed of random numbers.
    seed: Annotated[WholeNumber, KeyBounds(at_least=0, at_most=2**32 - 1)] = (
        0  # what NumPy and Optuna take
    )
    #: Maximum number of trials per batch.
    batch: CountKey = 8
    #: Whether to try the equal split, the traffic-proportional one and the bound's first.
    enqueue: Flag = True
    #: Options of the sampler.
    options: dict[str, Any] = default(dict)


class Split(Part):
    """The space of bandwidth splits over dimensions.

    The split is searched if total, cost, bisection, max or parts is set.
    """

    #: Sum of the bandwidths of an NPU.
    total: Bandwidth | None = None
    #: Maximum cost of the network, such as 20 MUSD, NPUs and fixed parts included.
    cost: Money | None = None
    #: Minimum bandwidth between the machine's halves, one way; alone, it fixes the split.
    bisection: Bandwidth | None = None
    #: Minimum of each bandwidth, one value or a list.
    min: Bandwidths = default("1 GB/s")
    #: Maximum of each bandwidth, one value or a list.
    max: Bandwidths | None = None
    #: Grid of bandwidths.
    step: Bandwidth = default("0.1 GB/s")
    #: Linear constraints, such as [b0 >= b1, b2 + b3 == 200 GB/s].
    constraints: tuple[str, ...] = ()
    #: Splits to try first.
    known: tuple[Bandwidths, ...] = ()
    #: Whether bandwidths are those of parts for sale, of the kinds in `topology.links`; total and
    #: cost are then maxima.
    parts: Flag = False

    @property
    def is_searched(self) -> bool:
        """True if the study searches the split of bandwidth."""
        limits = (self.total, self.cost, self.bisection, self.max)
        return self.parts or any(each is not None for each in limits)


class Parameter(Part):
    """The values of a key that is searched: a list, or a range from ``low`` to ``high``."""

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
                    problem = "a range needs low and high"
                    hint = "or give values, such as {values: [16, 64]}"
                    raise DimsweepError(problem, where=name, hint=hint, code="missing")
        elif not self.values:
            raise DimsweepError("the list is empty", where="values", code="missing")
        elif ranged or self.log:
            problem = "give values, or low and high, not both"
            raise DimsweepError(problem, where=ranged[0] if ranged else "log", code="conflict")
        return self


class Space(Part):
    """The search space of a study: bandwidth splits, networks, parallel plans, and other keys."""

    #: The split of the bandwidth over the dimensions.
    bandwidth: Split = default(Split)
    #: Other searched keys, each with `values`, or with `low` and `high` (and `step`, `log`).
    parameters: dict[str, Parameter] = default(dict)
    #: Networks, each of which is pruned by a bound or simulated.
    network: Networks | None = None
    #: Parallel plans, each of which is pruned by a bound or simulated.
    plan: Plans | None = None


class Role(StrEnum):
    """The role of an axis: a decision can be built or run, a scenario is a condition."""

    DECISION = "decision"
    SCENARIO = "scenario"


def _parse_role(value: Any) -> Any:
    """Parse the role of an axis; for a scenario also weights, by the texts of its values."""
    if not isinstance(value, Mapping):
        return member_parser(Role)(value)
    for name, weight in value.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < math.inf:
            problem = f"{format_yaml(weight)} is not a weight"
            hint = "a weight is zero or more, and finite, such as 2"
            raise DimsweepError(problem, where=str(name), hint=hint, code="out-of-range")
    if not any(value.values()):
        raise DimsweepError(
            "all weights are zero",
            hint="give at least one that is more than zero, such as {a: 2, b: 1}",
            code="out-of-range",
        )
    return {str(name): float(weight) for name, weight in value.items()}


# The role of an axis; a mapping gives the weights of a scenario's values.
RoleOrWeights = Annotated[Role | dict[str, float], ValueParser(_parse_role, choices=map(str, Role))]


class Budget(Part):
    """The limits of each search, such as its number of trials."""

    RENAMED: ClassVar = {"points": "trials"}

    #: Maximum number of trials.
    trials: CountKey = 300
    #: A search stops when its best trial is within this share of the proven bound; 1e-4 is 0.01 %.
    gap: Annotated[Number, KeyBounds(at_least=0)] | None = None

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        if self.gap is not None and not self.gap <= 1:
            problem = f"{self.gap:g} is {self.gap:.0%}; it must be 1 or less"
            proposal = f"did you mean {self.gap / 100:g}? " if self.gap <= 100 else ""
            hint = f"{proposal}0.05 is 5 %"
            raise DimsweepError(problem, where="gap", hint=hint, code="out-of-range")
        return self


class Recheck(Part):
    """A second simulation of a search's best ``top`` designs at a higher ``fidelity``.

    Lists are steps: ``top: [8, 2], fidelity: [flow, packet]`` simulates the best 8 designs by
    flows, and the best 2 of these by packets.
    """

    top: IndexKey | tuple[IndexKey, ...] = 0
    fidelity: Annotated[
        Fidelity | tuple[Fidelity, ...], ValueParser(list_parser(member_parser(Fidelity)))
    ] = default("message")

    @property
    def rungs(self) -> tuple[tuple[Fidelity, int], ...]:
        """Each step's fidelity and number of designs; () without a recheck."""
        tops = self.top if isinstance(self.top, tuple) else (self.top,)
        kinds = self.fidelity if isinstance(self.fidelity, tuple) else (self.fidelity,)
        return tuple(zip(kinds, tops, strict=True)) if any(tops) else ()

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        tops = self.top if isinstance(self.top, tuple) else (self.top,)
        kinds = self.fidelity if isinstance(self.fidelity, tuple) else (self.fidelity,)
        problem, where, hint = "", "top", ""
        code: Code = "out-of-range"
        if len(tops) != len(kinds):
            problem = f"{len(tops)} numbers for {len(kinds)} fidelities"
            hint, code = "give one number for each fidelity", "mismatch"
        elif list(tops) != sorted(tops, reverse=True):
            problem = f"{', '.join(map(str, tops))}; the numbers must decrease"
            hint = "each fidelity simulates the best designs of the one before"
        elif len(tops) > 1 and not all(tops):
            problem, hint = "a fidelity that simulates 0 designs", "leave it out"
        elif Fidelity.PHASE in kinds or len(set(kinds)) < len(kinds):
            problem, where = (
                f"{', '.join(kinds)} cannot recheck designs found by phases",
                "fidelity",
            )
            hint, code = "choose from message, flow and packet, each once", "conflict"
        if problem:
            raise DimsweepError(problem, where=where, hint=hint, code=code)
        return self


def _parse_what_if(value: Any) -> Any:
    """Parse a mapping from names of what-ifs to changes of keys; {} if nothing is given."""
    if value is None or value == DEFAULT:
        return value or {}
    hint = "such as {800G: {'topology.bandwidth[1]': 100 GB/s}, optics: {cost.tiers.pod: x2}}"
    if not isinstance(value, Mapping):
        problem = f"{value!r} is not a mapping of changes by name"
        raise DimsweepError(problem, hint=hint, code="wrong-type")
    for name, changes in value.items():
        if not isinstance(name, str) or not name.strip():
            problem = f"{name!r} is not the name of a change"
            raise DimsweepError(problem, hint=hint, code="wrong-type")
        if not isinstance(changes, Mapping) or not changes:
            problem = f"{changes!r} is not a mapping of keys"
            raise DimsweepError(problem, where=name, hint=hint, code="wrong-type")
    return {name: {str(key): each for key, each in own.items()} for name, own in value.items()}


# Changes to the best design after the search: by name, keys with new values, or with factors such
# as x2; "default" for changes that suit any design.
DEFAULT = "default"
WhatIf = Annotated[dict[str, dict[str, Any]] | str, ValueParser(_parse_what_if)]


class Portfolio(Part):
    """Several workloads that share one split or one network, each with a separate plan.

    The study searches the optimum of each workload, and then the best split or network for all.
    """

    #: Options of the config group `workload` with their weights.
    workloads: dict[str, Number] = default(dict)
    #: Minimised measure: weighted_time, worst_regret, or cvar.
    measure: Annotated[Measure, member_type(Measure)] = default("worst_regret")
    #: Level of cvar.
    level: Number = 0.9

    @model_validator(mode="after")
    @preserve_errors
    def _check(self) -> Self:
        for name, weight in self.workloads.items():
            if not (weight >= 0 and math.isfinite(weight)):
                problem = f"{weight:g}; it must be zero or more, and finite"
                raise DimsweepError(problem, where=f"workloads.{name}", code="out-of-range")
        if self.workloads and not any(self.workloads.values()):
            problem, hint = "all weights are zero", "give at least one that is more than zero"
            raise DimsweepError(problem, where="workloads", hint=hint, code="out-of-range")
        return self


class Executor(Part):
    """The place where trials are simulated: this machine or a Ray cluster."""

    #: `local`: Ray actors, on this machine or at `address`; `inline`: this process.
    mode: str = "local"
    #: Number of Ray actors.
    actors: WholeNumber | None = None
    #: Address of a running Ray cluster.
    address: str | None = None
    #: Maximum time of a trial, from its start on a worker; not with `inline`.
    timeout: Seconds | None = None
    #: Memory that a trial may use beyond its worker's own; not with `inline`.
    memory: Bytes | None = None
