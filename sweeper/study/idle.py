"""Find keys without an effect: with another value, the kernel's input is identical bit by bit.

The keys that the user sets, in a study or on the command line, or varies are checked.  Each check
costs one lowering (some hundredths of a second, or a second for 200,000 operators), and up to three
for a key without an effect.  A study checks its first cell, and other cells only for the keys
without an effect there.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from dimsweep.engine import DimsweepError, Fidelity, Program
from dimsweep.engine.network import Clos
from dimsweep.engine.rules import KernelInputs, has_equal_inputs, is_measured
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.network import GRAPHS
from dimsweep.sweeper.config.overrides import is_group
from dimsweep.sweeper.config.schema import Config, Design
from dimsweep.sweeper.config.workload import KINDS
from dimsweep.sweeper.part import Part, ValueParser, expand_per_dimension
from dimsweep.sweeper.simulation.program import build_program

_MAX_OPERATORS = 500_000  # to lower more takes seconds, so nothing is checked
# Keys of whole designs, of additional simulations, of limits and of names.
_UNCHECKED = {
    *("workload", "topology", "workload.name", "topology.tiers"),
    *("topology.machines", "npu.machines", "cost.machines"),
    *("fold", "fidelity", "network.max_messages", "network.max_packets", "plugins"),
    "reliability.outages",
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(.*)")
_CHOOSE = (None, "auto", ["auto"], [None])
_LETTERS = 40  # maximum length of a value in a warning


class _OtherConfig(NamedTuple):
    """A configuration with another value of the checked key, and that value as text."""

    config: Config
    value: str
    chooses: bool  # with this value dimsweep chooses, possibly the value that is set


def idle_keys(
    composed: ComposedConfig, program: Program, turned: Collection[str]
) -> dict[str, str]:
    """Return a warning for each of the keys ``turned`` without effect on the program, by key."""
    if len(program.structure.nodes) > _MAX_OPERATORS:
        return {}
    config, found = composed.config, dict[str, str]()
    used = _used_fidelities(config)
    own = cache(partial(_own_input, config, program))
    for key in dict.fromkeys(turned):
        if key.split(".")[0] not in Design.model_fields or key in _UNCHECKED:
            continue
        same = list[_OtherConfig]()
        for other in _other_configs(composed, key):
            lowered = [_lower(other.config, fidelity) for fidelity in used]
            if None in lowered:
                continue  # an impossible configuration
            priced = not (_is_fabric(key) and _is_of_links(key, used))
            if not all(map(partial(_is_same, priced=priced), map(own, used), lowered)):
                break
            same.append(other)
        else:
            if value := next((other.value for other in same if not other.chooses), ""):
                cost = " but on the cost" if not priced and program.prices else ""
                found[key] = (
                    f"{key} has no effect{cost}: {_explain(config, program, key, value, used)}"
                )
    return found


def _used_fidelities(config: Config) -> list[Fidelity]:
    """Return the fidelities in which the study simulates."""
    varied = [*config.grid.get("fidelity", ())]
    if "fidelity" in config.space.parameters:
        varied += config.space.parameters["fidelity"].values or ()
    used = [config.fidelity, *(fidelity for fidelity, _ in config.recheck.rungs)]
    return list(dict.fromkeys([*used, *map(Fidelity, varied)]))


def _own_input(config: Config, program: Program, fidelity: Fidelity) -> KernelInputs | None:
    """Return the kernel's input for the configuration with its own values."""
    return (
        KernelInputs(program, fidelity) if fidelity == config.fidelity else _lower(config, fidelity)
    )


def _lower(config: Config, fidelity: Fidelity) -> KernelInputs | None:
    """Return the kernel's input for a configuration; None if it is infeasible."""
    try:
        if fidelity is not config.fidelity:
            config = config.with_values({"fidelity": str(fidelity)})
        return KernelInputs(build_program(config), fidelity)
    except DimsweepError:
        return None


def _is_same(ours: KernelInputs | None, other: KernelInputs | None, *, priced: bool) -> bool:
    try:
        return (
            ours is not None and other is not None and has_equal_inputs(ours, other, priced=priced)
        )
    except DimsweepError:  # the network lacks a part that is degraded
        return False


def _is_of_links(key: str, used: Collection[Fidelity]) -> bool:
    """Return whether a key describes links, and no fidelity in ``used`` simulates links."""
    return key.split(".")[0] == "network" and {*used} == {Fidelity.PHASE}


def _is_fabric(key: str) -> bool:
    """Return whether a key describes links and switches, which affect prices at any fidelity."""
    return key in ("network", *(f"network.{name}" for name in ("fabric", *GRAPHS)))


def _other_configs(composed: ComposedConfig, key: str) -> Iterator[_OtherConfig]:
    """Yield the configuration with other values of ``key``.

    They are the values of the study's axis. Without an axis they are the default, all choices, and
    twice and half of a number.
    """
    config = composed.config
    if is_group(key):
        without = [word.text for word in composed.words if word.key != key]
        if len(without) < len(composed.overrides) and key not in config.grid:
            try:
                other = compose(without, may_sweep=True)
            except DimsweepError:  # other overrides need the option
                return
            # Without the override the same option may be chosen, which proves nothing.
            if (option := other.choices.get(key)) != composed.choices.get(key):
                yield _OtherConfig(other.config, f"{key}={option}", chooses=False)
        return
    try:
        config.value(key)
    except DimsweepError:  # a key that others replace, such as the preset of a job
        return
    seen: list[Any] = []
    for value in _other_values(config, key):
        try:
            seen.append(config.value(key))
            changed = config.with_values({key: value})
            if changed.value(key) not in seen:
                yield _OtherConfig(changed, _format_value(value), value in _CHOOSE)
            seen.append(changed.value(key))
        except DimsweepError:
            continue


def _other_values(config: Config, key: str) -> Iterator[Any]:
    varied = config.grid.get(key)
    if key in config.space.parameters:
        parameter = config.space.parameters[key]
        varied = parameter.values or (parameter.low, parameter.high)
    if varied is not None:
        yield from varied
        return
    default = _default(config, key)
    if default != "???":
        yield default
    yield from _choices(config, key)
    for factor in (2, 0.5):
        value = _scale(config.value(key), factor)
        if value is not None:
            yield value


def _choices(config: Config, key: str) -> Iterator[str]:
    """Yield the valid values of a key whose values are names."""
    part: Any = config
    *path, last = key.split(".")
    for name in path:
        part = getattr(part, name, None)
    field = type(part).model_fields.get(last) if isinstance(part, Part) else None
    for each in field.metadata if field else ():
        yield from each.choices if isinstance(each, ValueParser) else ()


def _default(config: Config, key: str) -> Any:
    """Return the default of a key; "???" without one."""
    node: Any = {**Config.defaults(), "workload": KINDS[config.workload.kind].defaults()}
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return "???"
        node = node[part]
    return node


def _scale(value: Any, factor: float) -> Any:
    """Return a number, a quantity or a list of them times ``factor``.

    For a truth value, its negation. Return None for other values.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return int(factor * value)
    if isinstance(value, float):
        return factor * value
    if isinstance(value, list):
        return [_scale(each, factor) for each in value] if value else None
    if isinstance(value, str) and (number := _NUMBER.fullmatch(value)):
        return f"{factor * float(number[1]):g}{number[2]}"
    return None


def _explain(
    config: Config, program: Program, key: str, value: str, used: Collection[Fidelity]
) -> str:
    """Return the reason why a key has no effect, or else a value with the same result."""
    group = key.split(".")[0]
    if group == "npu" and is_measured(program):
        return "every computation has a measured duration"
    if _is_of_links(key, used):
        return "fidelity=phase simulates no links" + _oversubscription(config, program, key)
    return f"{value} gives the same simulation"


def _oversubscription(config: Config, program: Program, key: str) -> str:
    """Return a text on an oversubscribed Clos in a kernel that models bandwidths only."""
    if not _is_fabric(key):
        return ""
    dims = program.names.dims
    fabrics = expand_per_dimension(config.network.fabric, len(dims), "fabric")
    return "".join(
        f"; between leaf switches {fabric.oversubscription:g}:1 oversubscription leaves dimension "
        f"{name} 1/{fabric.oversubscription:g} of its bandwidth; reduce topology.bandwidth instead"
        for name, fabric in zip(dims, fabrics, strict=True)
        if isinstance(fabric, Clos) and fabric.oversubscription > 1
    )


def _format_value(value: Any) -> str:
    """Format a value for a warning, as YAML."""
    words = {"None": "null", "True": "true", "False": "false"}
    text = words.get(str(value), str(value))
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."
