"""Resolve the changes of a what-if to values of keys.

A change is given as the value of a key, the option of a config group, or a factor such as ``x2``.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.engine.topology import parse_shape
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.overrides import is_group
from dimsweep.sweeper.config.schema import Config, Design
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.study.restore import BANDWIDTHS, format_decimal

_FACTOR = re.compile(r"x\s*(\d+(?:\.\d+)?(?:/\d+)?)")
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(\s*[^\W\d_].*)")
_DIMENSION_KEY = re.compile(r"(topology\.(?:bandwidth|latency))\.(.+)")
_LIST_INDEX = re.compile(r"\[([^\]]*)\]")


class NoChangeError(DimsweepError):
    """An error of a change that leaves a design unchanged."""


def resolve(config: Config, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that ``changes`` give to dotted keys of ``config``.

    A value such as ``x2`` multiplies the present value, or every number in it. A text at a config
    group chooses the group's option. List entries are written ``[1]`` or ``.1``. Bandwidths and
    latencies of single dimensions may be set even if one value is given for all dimensions.

    Raises :class:`DimsweepError` for an unknown key, or for a factor of a key without a number.
    Raises :class:`NoChangeError` if all keys have these values already.
    """
    found: dict[str, Any] = {}
    for given, wanted in changes.items():
        name = re.sub(_LIST_INDEX, r".\1", given)
        with naming_key(given):
            if name.split(".")[0] not in Design.model_fields:
                raise DimsweepError(
                    "no design depends on this key",
                    hint=suggest_names(name.split(".")[0], Design.model_fields),
                    code="unknown-key",
                )
            found |= _resolve_change(config, name, wanted, found)
    try:
        same = config.with_values(found) == config
    except DimsweepError:  # a value that cannot be, of which the simulation says why
        same = False
    if same:
        raise NoChangeError(
            f"it changes nothing: {', '.join(changes)} has this value already", code="conflict"
        )
    return found


def check_keys(config: Config, changes: Mapping[str, Any]) -> None:
    """Raise :class:`DimsweepError` for a change that cannot apply to any design of ``config``."""
    searched = set(config.space.parameters)
    if config.space.bandwidth.is_searched:
        searched.add(BANDWIDTHS)
        config = _with_some_bandwidth(config)
    try:
        found = resolve(config, changes)
    except NoChangeError:
        if not searched.intersection(_key_prefixes(changes)):
            raise
        return
    config.with_values(found)


def _with_some_bandwidth(config: Config) -> Config:
    """Return the configuration, with bandwidths if a searched split leaves it without."""
    if config.topology.bandwidth is not None or config.topology.shape is None:
        return config
    return config.with_values({BANDWIDTHS: "1 GB/s"})


def _key_prefixes(changes: Mapping[str, Any]) -> set[str]:
    """Return the keys of the changes, and all keys above them."""
    parts = [re.sub(_LIST_INDEX, r".\1", name).split(".") for name in changes]
    return {".".join(own[:n]) for own in parts for n in range(1, len(own) + 1)}


def _resolve_change(
    config: Config, name: str, wanted: Any, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the keys that one change sets.

    ``before`` has values of earlier changes.
    """
    if isinstance(wanted, str) and "." not in name and is_group(name):
        return {name: _compose_option(name, wanted)}
    factor = _FACTOR.fullmatch(wanted.strip()) if isinstance(wanted, str) else None
    own = _DIMENSION_KEY.fullmatch(name)
    if own is None:
        if factor is None:
            return {name: wanted}
        return {name: multiply(config.value(name), Fraction(factor[1]))}
    values = _dimension_values(config, own[1], before)
    if not own[2].isdecimal() or int(own[2]) >= len(values):
        raise DimsweepError(
            f"the topology has dimensions 0 to {len(values) - 1}", code="out-of-range"
        )
    d = int(own[2])
    values[d] = wanted if factor is None else multiply(values[d], Fraction(factor[1]))
    return {own[1]: values}


def _dimension_values(config: Config, name: str, before: Mapping[str, Any]) -> list[Any]:
    """Return the values of a key for each dimension, from ``before`` or ``config``."""
    if config.topology.shape is None:
        raise DimsweepError(
            "the topology is given by a file", where="topology.file", code="conflict"
        )
    values = before.get(name, config.value(name))
    if isinstance(values, list):
        return list(values)
    if values is None:
        raise DimsweepError("the key has no value to change", code="missing")
    return [values] * len(parse_shape(config.topology.shape))


@lru_cache(maxsize=64)
def _compose_option(group: str, name: str) -> Any:
    """Return the keys that an option of a config group sets, merged over the defaults."""
    return compose([f"{group}={name}"]).config.text[group]


def multiply(value: Any, factor: Fraction) -> Any:
    """Multiply a number, a quantity with its unit, or all numbers in mappings and lists.

    Raises :class:`DimsweepError` if there is no number, and for a text that is not a quantity.
    """
    if factor == 1:
        raise NoChangeError("it changes nothing: a factor of 1", code="conflict")
    product = _multiply(value, factor)
    if product == value:
        raise DimsweepError("no number that a factor could multiply", code="wrong-type")
    return product


def _multiply(value: Any, factor: Fraction) -> Any:
    """Multiply as :func:`multiply` does, but return a value without numbers unchanged."""
    if isinstance(value, Mapping):
        return {name: _multiply(each, factor) for name, each in value.items()}
    if isinstance(value, list):
        return [_multiply(each, factor) for each in value]
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        product = value * factor
        return int(product) if product.denominator == 1 else float(product)
    if isinstance(value, float):
        return float(Fraction(repr(value)) * factor)
    quantity = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if quantity is None:
        raise DimsweepError(
            f"{value!r} is not a number that a factor can multiply",
            hint="give the new value",
            code="wrong-type",
        )
    return f"{format_decimal(Fraction(quantity[1]) * factor)}{quantity[2]}"
