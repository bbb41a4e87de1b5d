"""From configuration to an NPU and its compute model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import DimsweepError, Npu, units
from engine.cluster import Dataflow, EfficiencyCurve, SystolicArray
from engine.formats import read_measured
from sweeper.config.compose import found
from sweeper.config.parse import choice, key, optional

Config = Mapping[str, Any]


def build_npu(config: Config, precision: str) -> Npu:
    """The NPU of ``config``, computing in ``precision`` where its peak depends on it."""
    rates = {}
    for name, unit in (
        ("memory_bandwidth", units.BANDWIDTH),
        ("reduce_bandwidth", units.BANDWIDTH),
        ("memory", units.BYTES),
    ):
        with key(name):
            rates[name] = optional(config[name], unit)
    with key("flops"):
        flops = _peak(config["flops"], precision)
    with key("launch"):
        launch = units.parse_time(config["launch"])
    return Npu(
        flops=flops,
        memory_bandwidth=rates["memory_bandwidth"],
        efficiency=config["efficiency"],
        reduce_bandwidth=rates["reduce_bandwidth"],
        memory_efficiency=config["memory_efficiency"],
        matmul_efficiency=_curve(config["matmul_efficiency"]),
        systolic=_systolic(config["systolic"]),
        launch=launch,
        measured=_measured(config["measured"]),
        memory=rates["memory"],
    )


def _measured(file: str | None) -> dict[str, int] | None:
    if file is None:
        return None
    try:
        return read_measured(found(file))
    except DimsweepError as error:  # its place is one in the file
        where = f"measured: {error.where}"
        raise DimsweepError(error.what, where=where, hint=error.hint) from error.__cause__


def _peak(value: Any, precision: str) -> float | None:
    """One rate for all precisions, or one for each."""
    if isinstance(value, Mapping):
        if precision not in value:
            raise DimsweepError(
                f"no rate for {precision}", hint=f"there are: {', '.join(value) or 'none'}"
            )
        value = value[precision]
    return optional(value, units.COMPUTE_RATE)


def _curve(knots: Any) -> EfficiencyCurve | None:
    if not knots:
        return None
    pairs = []
    for i, knot in enumerate(knots):
        with key(f"matmul_efficiency[{i}]"):
            if (
                not isinstance(knot, list)
                or len(knot) != 2
                or not isinstance(knot[1], (int, float))
            ):
                raise DimsweepError(
                    f"{knot!r} is no pair of operations and efficiency",
                    hint="such as [10 GFLOP, 0.6]",
                )
            pairs.append((units.parse(knot[0], units.COMPUTE), float(knot[1])))
    return EfficiencyCurve(tuple(pairs))


_ARRAY = {"dataflow": Dataflow.WEIGHT_STATIONARY.value, "arrays": 1}  # unless said


def _systolic(given: Any) -> SystolicArray | None:
    if given is None:
        return None
    with key("systolic"):
        needed = {"rows", "columns", "clock"}
        if not isinstance(given, Mapping) or not needed <= set(given) <= needed | set(_ARRAY):
            raise DimsweepError(
                f"{given!r} is no array",
                hint="such as {rows: 128, columns: 128, clock: 940 MHz}; also dataflow, arrays",
            )
        config = {**_ARRAY, **given}
        for name in ("rows", "columns", "arrays"):
            if not isinstance(config[name], int) or isinstance(config[name], bool):
                raise DimsweepError(f"{config[name]!r} is no whole number", where=name)
        with key("clock"):
            clock = units.parse(config["clock"], units.FREQUENCY)
        with key("dataflow"):
            dataflow = choice(config["dataflow"], Dataflow)
        return SystolicArray(config["rows"], config["columns"], clock, dataflow, config["arrays"])
