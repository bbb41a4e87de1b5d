"""Keys that make no difference: with another value the kernel is told the same, bit by bit.

Looked at are the keys that the user sets, in a study or on the command line, or varies.  Each
costs one lowering (some hundredths of a second, a second where a program has 200,000 operators),
and up to three where it makes no difference; so a study asks of its first cell, and of others only
what made none there.
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

_LARGEST = 500_000  # operators; to lower more takes seconds, and nothing is said
# These are whole designs, what is simulated beside, and what only says how far, how large or by
# what name.
_OTHER_THINGS = {
    *("workload", "topology", "workload.name", "topology.tiers"),
    *("topology.machines", "npu.machines", "cost.machines"),
    *("fold", "fidelity", "network.max_messages", "network.max_packets", "plugins"),
    "reliability.outages",
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(.*)")
_CHOOSE = (None, "auto", ["auto"], [None])
_LETTERS = 40  # of a value in a warning


class _OtherConfig(NamedTuple):
    """A configuration with another value of one key, and the text of that value."""

    config: Config
    value: str
    chooses: bool  # that value lets dimsweep choose one, which may be the very one that is set


def idle_keys(
    composed: ComposedConfig, program: Program, turned: Collection[str]
) -> dict[str, str]:
    """Return the keys of ``turned`` that make no difference to the ``program`` of a configuration,
    each with a warning that says why."""
    if len(program.structure.nodes) > _LARGEST:
        return {}
    config, found = composed.config, dict[str, str]()
    used = _used_fidelities(config)
    own = cache(partial(_own_input, config, program))
    for key in dict.fromkeys(turned):
        if key.split(".")[0] not in Design.model_fields or key in _OTHER_THINGS:
            continue
        same = list[_OtherConfig]()
        for other in _other_configs(composed, key):
            lowered = [_lower(other.config, fidelity) for fidelity in used]
            if None in lowered:
                continue  # that cannot be
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
    """Return the kernel's input of the configuration itself, whose program is this one."""
    return (
        KernelInputs(program, fidelity) if fidelity == config.fidelity else _lower(config, fidelity)
    )


def _lower(config: Config, fidelity: Fidelity) -> KernelInputs | None:
    """Return the kernel's input of a configuration, or None if it cannot be lowered."""
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
    except DimsweepError:  # a network of which there is no such part to be down
        return False


def _is_of_links(key: str, used: Collection[Fidelity]) -> bool:
    """Return whether a key describes the links where none is simulated."""
    return key.split(".")[0] == "network" and {*used} == {Fidelity.PHASE}


def _is_fabric(key: str) -> bool:
    """Return whether a key describes links and switches: these have prices, though no time depends
    on them where none is simulated."""
    return key in ("network", *(f"network.{name}" for name in ("fabric", *GRAPHS)))


def _other_configs(composed: ComposedConfig, key: str) -> Iterator[_OtherConfig]:
    """Yield the configuration with other values of ``key``: those of the study's axis, or its
    default, all choices and, of a number, twice and half as much."""
    config = composed.config
    if is_group(key):
        without = [word.text for word in composed.words if word.key != key]
        if len(without) < len(composed.overrides) and key not in config.grid:
            try:
                other = compose(without, may_sweep=True)
            except DimsweepError:  # other overrides are of the option
                return
            # Without the override the very same option may be chosen, which says nothing.
            if (option := other.choices.get(key)) != composed.choices.get(key):
                yield _OtherConfig(other.config, f"{key}={option}", chooses=False)
        return
    try:
        config.value(key)
    except DimsweepError:  # it stands for other keys, as the preset of a job does
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
    """Return all values of a key that is one of a few names."""
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
    """Return a number or a quantity, or each of a list, times ``factor``; the other truth value;
    else None."""
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
    """Return why a key is idle, if known, or a value that changes nothing."""
    group = key.split(".")[0]
    if group == "npu" and is_measured(program):
        return "every computation has a measured duration"
    if _is_of_links(key, used):
        return "fidelity=phase simulates no links" + _oversubscription(config, program, key)
    return f"what is simulated is the same with {value}"


def _oversubscription(config: Config, program: Program, key: str) -> str:
    """Return the effect of an oversubscribed Clos for a kernel that knows bandwidths only."""
    if not _is_fabric(key):
        return ""
    dims = program.names.dims
    fabrics = expand_per_dimension(config.network.fabric, len(dims), "fabric")
    return "".join(
        f"; between leaf switches {fabric.oversubscription:g}:1 oversubscription leaves dimension "
        f"{name} 1/{fabric.oversubscription:g} of its bandwidth, which topology.bandwidth can say"
        for name, fabric in zip(dims, fabrics, strict=True)
        if isinstance(fabric, Clos) and fabric.oversubscription > 1
    )


def _format_value(value: Any) -> str:
    """Format a value for a warning, as YAML."""
    words = {"None": "null", "True": "true", "False": "false"}
    text = words.get(str(value), str(value))
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."
