"""Keys of the NPU, with its speed in each precision, and of NPUs of other kinds."""

from collections.abc import Mapping
from typing import Annotated, Any

import dimsweep.engine
from dimsweep.engine import DimsweepError, naming_place, suggest_names, units
from dimsweep.engine import network as engine
from dimsweep.engine.cluster import (
    OtherNpus,
    OtherPart,
    ShareCurve,
    SystolicArray,
    kernel_times,
)
from dimsweep.engine.formats import read_measured
from dimsweep.sweeper.config.cost import Cost
from dimsweep.sweeper.config.sources import SOURCES, find_preset, read_figures, read_values
from dimsweep.sweeper.config.workload.workload import PRECISIONS
from dimsweep.sweeper.part import (
    FileName,
    KeyBounds,
    MoneyOrNone,
    Part,
    Power,
    Quantity,
    ValueParser,
    WholeNumber,
    default,
    describe_values,
    expand_npu_numbers,
    mirror,
    naming_key,
    parse_compute_rate,
    parse_npu_numbers,
    quantity_parser,
    to_plain,
)
from dimsweep.sweeper.places import find_file

_SAME_RATE = {"fp8_block": "fp8", "mxfp8": "fp8"}  # only the scales of their factors differ


@describe_values(f"compute rate, such as {units.COMPUTE_RATE.examples}, or one for each precision")
def _parse_peak(value: Any) -> Quantity | dict[str, Quantity]:
    """Parse a rate for all precisions, or a mapping with a rate for each."""
    if not isinstance(value, Mapping):
        return parse_compute_rate(value)
    rates = {}
    for precision, rate in value.items():
        if precision not in PRECISIONS:
            hint = suggest_names(str(precision), PRECISIONS)
            raise DimsweepError("unknown key", where=str(precision), hint=hint, code="unknown-key")
        with naming_key(precision):
            rates[precision] = parse_compute_rate(rate)
    return rates


@describe_values("mapping of precisions to factors")
def _parse_relative_time(value: Any) -> dict[str, float]:
    """Parse the times of products in narrow precisions and TF32, relative to the main precision."""
    narrow = [name for name, each in PRECISIONS.items() if each.narrow or name == "tf32"]
    if not isinstance(value, Mapping):
        problem, hint = f"{value!r} is not a mapping of factors", "such as {fp8: 0.5}"
        raise DimsweepError(problem, hint=hint, code="wrong-type")
    for name, factor in value.items():
        if name not in narrow:
            hint = suggest_names(str(name), narrow)
            raise DimsweepError("unknown key", where=str(name), hint=hint, code="unknown-key")
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not factor > 0:
            problem = f"{factor!r}; it must be a number greater than 0"
            raise DimsweepError(problem, where=str(name), code="out-of-range")
    return {name: float(factor) for name, factor in value.items()}


_Array = mirror(SystolicArray)


def _parse_systolic(value: Any) -> SystolicArray:
    if isinstance(value, SystolicArray):
        return value
    return SystolicArray(**dict(_Array.from_plain(value)))


@describe_values("pairs of operations and efficiency")
def _parse_knot(value: Any) -> tuple[Quantity, float]:
    """Parse a point of the efficiency curve of matrix products: operations, share of the peak."""
    if (
        not isinstance(value, (list, tuple))
        or len(value) != 2
        or isinstance(value[1], bool)
        or not isinstance(value[1], (int, float))
    ):
        raise DimsweepError(
            f"{value!r} is not a pair of operations and efficiency",
            hint="such as [10 GFLOP, 0.6]",
            code="wrong-type",
        )
    return quantity_parser(units.COMPUTE)(value[0]), float(value[1])


_Knot = Annotated[tuple[Quantity, float], ValueParser(_parse_knot)]


class Npu(
    mirror(  # type: ignore[misc]
        dimsweep.engine.Npu,
        without=("plain_flops", "precision", "narrow", "speed", "measured", "kernels"),
        flops=Annotated[Quantity | dict[str, Quantity], ValueParser(_parse_peak)] | None,
        matmul_efficiency=tuple[_Knot, ...] | None,
        systolic=Annotated[
            SystolicArray,
            ValueParser(_parse_systolic, lambda a: to_plain(vars(a)), takes="mapping"),
        ]
        | None,
        relative_time=Annotated[dict[str, float], ValueParser(_parse_relative_time)],
    )
):
    """An NPU with its speed in every precision: the settings of :class:`engine.Npu`."""

    #: CSV file of measured durations by kernel (columns kernel, duration), instead of all else.
    measured: FileName | None = None
    #: GPU whose products and attention were measured: a100, h100, h200 or b200.
    kernels: str | None = None
    #: Machines that it is in; none named: any.
    machines: tuple[str, ...] = ()

    def build(self, precision: str, narrow: str = "") -> dimsweep.engine.Npu:
        """Return the engine's NPU at a ``precision``; linear layers use ``narrow`` if given."""
        kernels = kernel_times(self.kernels) if self.kernels is not None else None
        peaks: Mapping[str, float] = {}
        timed = {*self.relative_time, *(kernels.products if kernels else ())}
        if narrow in timed:
            peaks = self._peak_of_timed(precision, narrow)
        elif narrow and (peak := self.peak(narrow)) is not None:
            peaks = {narrow: peak}
        curve, measured = self.matmul_efficiency, None
        if self.measured is not None:
            with naming_place("measured"):
                measured = read_measured(find_file(self.measured))
        own: dict[str, Any] = {
            "flops": self.peak(precision),
            "measured": measured,
            "precision": precision,
        }
        own |= {"kernels": kernels, "narrow": peaks}
        own["plain_flops"] = self.flops.get("fp32") if isinstance(self.flops, dict) else None
        with naming_key("matmul_efficiency"):
            own["matmul_efficiency"] = ShareCurve(curve) if curve else None
        return dimsweep.engine.Npu(**{**self.settings(dimsweep.engine.Npu), **own})

    def _peak_of_timed(self, precision: str, narrow: str) -> Mapping[str, float]:
        """Return peak rates by precision, for a ``narrow`` one with measured relative times.

        Without a given rate, it is the rate in ``precision`` times the speed-up of the products.
        """
        peak = self.peak(precision)
        if peak is None:
            return {}
        if isinstance(self.flops, dict):
            for name in (narrow, _SAME_RATE.get(narrow, narrow)):
                if name in self.flops:
                    return {narrow: self.flops[name]}
        return {narrow: peak / min(self.relative_time.get(narrow, 1.0), 1.0)}

    def peak(self, precision: str) -> float | None:
        """Return the peak rate in ``precision`` (FLOP/s); None if the NPU has no rates."""
        if not isinstance(self.flops, dict):
            return self.flops
        if precision not in self.flops:
            known = ", ".join(self.flops) or "none"
            problem, hint = f"it has no rate for {precision}", f"rates given: {known}"
            raise DimsweepError(problem, where="flops", hint=hint, code="missing")
        return self.flops[precision]


def _parse_npu(value: Any) -> Npu:
    """Parse an NPU: the name of a preset, or keys."""
    if not isinstance(value, str):
        return Npu.from_plain(value)
    find_preset("npu", value)
    found = read_values("npu", value)
    return Npu.from_plain({name: each for name, each in found.items() if name != SOURCES})


class NpuCost(Part):
    """Price and power of NPUs of another kind, for a part such as a server of eight."""

    price: MoneyOrNone | None = None
    watts: Power | None = None
    npus: Annotated[WholeNumber, KeyBounds(at_least=1, at_most=2**16)] = 1
    title: str = ""
    source: str = ""  # source of the price


def _parse_npu_cost(value: Any) -> NpuCost:
    """Parse the cost of NPUs: the name of a price list, or keys."""
    if not isinstance(value, str):
        return NpuCost.from_plain(value)
    find_preset("cost", value)
    prices = Cost.from_plain(
        {k: each for k, each in read_values("cost", value).items() if k != SOURCES}
    )
    if not prices.npu_price:
        problem, hint = f"cost={value} prices no NPU", "such as dgx_a100, or {price: 20 kUSD}"
        raise DimsweepError(problem, hint=hint, code="missing")
    own: dict[str, Any] = {"price": prices.npu.text, "watts": prices.power.npu.text}
    found = {figure.key: figure.source for figure in read_figures("cost", value)}.get("npu")
    source = f"{found.date} {found.evidence}: {found.document}" if found else ""
    if (server := prices.server) is not None and server.price is not None:
        own = {"price": server.price.value.text, "npus": server.ports, "title": server.title}
        own["watts"] = server.watts and server.watts.value.text
        source = f"{server.price.date} {server.price.level}: {server.price.source}"
    return NpuCost.from_plain({**own, "source": source})


class OtherNpuKind(Part):
    """NPUs of another kind than the cluster's main kind, and where they are."""

    #: The kind of NPU: a preset's name, or keys.
    npu: Annotated[Npu, ValueParser(_parse_npu)]
    #: Numbers of the NPUs in the network, such as [2048-4095] or [0, 8-15].
    at: Annotated[tuple[int | str, ...], ValueParser(parse_npu_numbers)]
    #: Price and power: the name of a price list, or keys.
    cost: Annotated[NpuCost, ValueParser(_parse_npu_cost)] = default(NpuCost)

    def purchase(self, name: str, n_npus: int, rest: Cost) -> OtherPart:
        """Return the part as which these NPUs are bought, in a network of ``n_npus``.

        ``name`` is their key. They have no price or power if the main NPUs (``rest``) have none,
        since the price list then covers the network only.
        """
        cost, machines = self.cost, " or ".join(self.npu.machines)
        price = cost.price if rest.npu_price else 0.0
        watts = cost.watts if rest.power.npu or rest.server else 0.0
        part = engine.Part(
            name,
            engine.PartKind.NPU,
            cost.title or (f"NPUs ({machines})" if machines else "other NPUs"),
            cost.npus,
            price=None if price is None else engine.Amount(price, source=cost.source),
            watts=None if watts is None else engine.Amount(watts),
        )
        return OtherPart(part, expand_npu_numbers(self.at, n_npus))

    def build(self, n_npus: int, precision: str, narrow: str) -> OtherNpus:
        """Return the engine's NPUs of this kind in a network of ``n_npus``."""
        with naming_key("npu"):
            return OtherNpus(self.npu.build(precision, narrow), expand_npu_numbers(self.at, n_npus))
