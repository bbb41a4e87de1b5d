"""Parse overrides KEY=VALUE by Hydra's grammar.

The values of an override with several values become an axis of a study's grid, or are searched. A
single value replaces an axis.
"""

import math
import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser, create_functions
from hydra.core.override_parser.types import (
    Glob,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
)
from hydra.errors import HydraException

from dimsweep.engine import Code, DimsweepError
from dimsweep.sweeper.part import has_order
from dimsweep.sweeper.places import find_study, is_path, list_folders, list_groups

STUDY = "study"  # the group whose options are files in studies/, or anywhere
MAX_VALUES = 10_000  # values of one axis
AXES, SEARCHED = "grid", "space.parameters"  # keys of a configuration that have several values


def _interval(start: int | float | str, end: int | float | str) -> IntervalSweep:
    """Return Hydra's ``interval(start, end)``, with ends that may be quantities with units."""
    ends: list[Any] = [each if isinstance(each, str) else float(each) for each in (start, end)]
    return IntervalSweep(start=ends[0], end=ends[1])


_KNOWN = create_functions()
del _KNOWN.definitions["interval"]
_KNOWN.register("interval", _interval)
_PARSER = OverridesParser(_KNOWN)
_FUNCTIONS = "|".join(_KNOWN.definitions)
_CALL = re.compile(rf"\s*({_FUNCTIONS})\s*\(")
# Shapes such as Ring(4)_Switch(8), which Hydra would parse as calls of functions.
_SHAPE = re.compile(rf"\b(?!(?:{_FUNCTIONS})\()\w+\([\w,]*\)(?:_\w+\([\w,]*\))*")
_LINK = re.compile(r"[^\[\],]*->[^\[\],]*")  # a link's name, whose arrow Hydra does not parse
_ENTRY = re.compile(r"\[(\d+)\]")
_PLAIN = re.compile(r"""[^\s'"\[\]{}(),=$\\](?:[^'"\[\]{}(),=$\\]*[^\s'"\[\]{}(),=$\\])?""")


class _Numbers(NamedTuple):
    """The ``n`` numbers of Hydra's ``range``, computed without rounding.

    Thus range(0.1, 0.4, 0.1) has 0.1, 0.2 and 0.3, and not 0.4.
    """

    start: Fraction
    step: Fraction
    n: int
    whole: bool

    def number(self, i: int) -> int | float:
        """Return number ``i`` of the range, counted from 0."""
        number = self.start + i * self.step
        return int(number) if self.whole else float(number)


@dataclass(frozen=True)
class ConfigOverride:
    """A parsed override KEY=VALUE of the configuration."""

    text: str  # as given
    is_choice: bool  # it chooses an option of a config group, and sets no key
    line: str = field(compare=False)  # as Hydra composes it
    parsed: Override = field(compare=False)

    @property
    def key(self) -> str:
        """The dotted key, or the config group, that the override sets."""
        return self.parsed.key_or_group

    @property
    def is_setting(self) -> bool:
        """True if the override sets one of dimsweep's keys, not an option or a key of Hydra."""
        return not (self.is_choice or self.is_hydra_key or self.parsed.is_delete())

    @property
    def is_hydra_key(self) -> bool:
        """True if the override sets one of Hydra's own keys."""
        return self.parsed.is_hydra_override()

    @property
    def is_sweep(self) -> bool:
        """True if the override has several values."""
        return self.parsed.is_sweep_override() and not self.parsed.is_delete()

    @property
    def is_interval(self) -> bool:
        """True if the values are an interval, which cannot be listed."""
        return isinstance(self.parsed.value(), IntervalSweep)

    @property
    def studies(self) -> list[str]:
        """Names or paths of the studies that the override chooses."""
        if self.key != STUDY or self.parsed.is_delete():
            return []
        return [str(value) for value in (self.values() if self.is_sweep else [self.parsed.value()])]

    @property
    def shape(self) -> str | None:
        """Values joined to one shape, if all of them are parts of a shape such as Ring(4).

        It is None otherwise.
        """
        values = self.text.partition("=")[2]
        shapes = values.replace("),", ")_")
        return shapes if _SHAPE.fullmatch(shapes) else None

    def values(self) -> list[Any]:
        """Return the several values of the override as a list.

        Raises :class:`DimsweepError` for no values, or too many to list.
        """
        swept: Any = self.parsed.value()
        self._check_tags(())
        if isinstance(swept, IntervalSweep):
            problem, hint = "an interval needs numbers", "list options, such as choice(a,b)"
            raise self._error(problem, hint, "wrong-type")
        if isinstance(swept, Glob):
            options = list_groups().get(self.key)
            if options is None:
                problem, hint = "a glob needs a group with options", "list values: choice(a,b)"
                raise self._error(problem, hint, "wrong-type")
            if not (found := swept.filter(options)):
                problem, hint = "no option matches the glob", f"known: {', '.join(options)}"
                raise self._error(problem, hint, "unknown-name")
            return list[Any](found)
        if isinstance(swept, RangeSweep):
            numbers = self._numbers(swept)
            if numbers.n > MAX_VALUES:
                problem = f"an axis of {numbers.n:,} values; {MAX_VALUES:,} are possible"
                hint = "use a larger step, or search the key in space.parameters"
                raise self._error(problem, hint, "too-many")
            return [numbers.number(i) for i in range(numbers.n)]
        return [_unquote(each) for each in swept.list]

    def parameter(self) -> dict[str, Any]:
        """Return the several values of the override as an entry of ``space.parameters``.

        Raises :class:`DimsweepError` for no values.
        """
        swept: Any = self.parsed.value()
        if isinstance(swept, IntervalSweep):
            self._check_tags(("log", "int"))
            low: Any = swept.start
            high: Any = swept.end
            plain = not isinstance(low, str) and not isinstance(high, str)  # not quantities
            if low == high or (plain and not low < high):
                hint = "write interval(LOW,HIGH), with LOW less than HIGH"
                raise self._error("it has no values", hint, "out-of-range")
            if plain and "int" in swept.tags:
                low, high = int(low), int(high)
            return {"low": low, "high": high, "log": "log" in swept.tags}
        if isinstance(swept, RangeSweep):
            self._check_tags(("log",))
            numbers = self._numbers(swept)
            low, high = sorted((numbers.number(0), numbers.number(numbers.n - 1)))
            step = abs(swept.step)
            return {"low": low, "high": high, "step": step, "log": "log" in swept.tags}
        return {"values": self.values()}

    def _numbers(self, swept: RangeSweep) -> "_Numbers":
        given = (swept.start or 0, swept.stop or 0, swept.step)
        try:
            start, stop, step = (Fraction(str(each)) for each in given)
            n = math.ceil((stop - start) / step)
        except ValueError:
            problem, hint = "the range has no end", "write range(START,STOP,STEP)"
            raise self._error(problem, hint, "out-of-range") from None
        except ZeroDivisionError:
            problem, hint = "its step is 0; it must not be 0", "write range(START,STOP,STEP)"
            raise self._error(problem, hint, "out-of-range") from None
        if n < 1:
            hint = "a range ends before its second number: range(1,4) is 1, 2, 3"
            raise self._error("it has no values", hint, "out-of-range")
        return _Numbers(start, step, n, whole=all(isinstance(each, int) for each in given))

    def _check_tags(self, known: tuple[str, ...]) -> None:
        swept: Any = self.parsed.value()
        if getattr(swept, "shuffle", False):
            hint = "leave shuffle out; search=random draws from a space"
            raise self._error("a sweep has no order to shuffle", hint, "unsupported")
        if unknown := sorted(getattr(swept, "tags", set()).difference(known)):
            hint = (
                f"known: {', '.join(known)}" if known else "only a searched key has tag(log, ...)"
            )
            raise self._error(f"unknown tag {unknown[0]!r}", hint, "unknown-name")

    def _error(self, problem: str, hint: str, code: Code) -> DimsweepError:
        value = self.text.partition("=")[2]
        return DimsweepError(f"{value}: {problem}", where=self.key, hint=hint, code=code)


def read_override(text: str) -> ConfigOverride:
    """Parse the override ``text``; raises :class:`DimsweepError` if it is invalid."""
    return _read(text, is_group(_normalize_key(text)))


def is_group(key: str) -> bool:
    """Return whether ``key`` is the name of a config group."""
    name = key.split("@")[0]
    return (
        "/" in name or name == STUDY or any(os.path.isdir(h / name) for h in list_folders("conf"))
    )


def format_choice(group: str, option: str) -> str:
    """Return the override that chooses an option of a config group, quoted if necessary."""
    return f"{group}={option if _PLAIN.fullmatch(option) else quote(option)}"


def quote(text: str) -> str:
    """Return a text in quotes, as the value of an override."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@lru_cache(maxsize=4096)
def _read(text: str, chooses: bool) -> ConfigOverride:
    _refuse_shape(text, chooses)
    if chooses or text.startswith("~") or text.startswith("hydra.") or "=" not in text:
        line = _quote_option(text) if chooses else text
        try:
            parsed = _PARSER.parse_override(line)
        except HydraException as error:
            raise _syntax_error(text, error) from error
        path = parsed.value() if parsed.key_or_group == STUDY else None
        if isinstance(path, str) and path.endswith((".yaml", ".yml")):  # Hydra knows its name
            line = f"{STUDY}={quote(Path(path).stem)}"
        return ConfigOverride(text, chooses, line, parsed)
    parsed = _parse_setting(text)
    return ConfigOverride(text, chooses, parsed.input_line or text, parsed)


def _refuse_shape(text: str, chooses: bool) -> None:
    """Raise :class:`DimsweepError` for ``topology=SHAPE``: the key is ``topology.shape``."""
    group, _, value = text.partition("=")
    if chooses and group == "topology" and _SHAPE.fullmatch(shape := value.strip("'\"")):
        problem = f"{shape} is a shape, not the name of a topology"
        hint = f"did you mean 'topology.shape={shape}'? `dimsweep list topology` shows the names"
        raise DimsweepError(problem, where=group, hint=hint, code="unknown-name")


def _quote_option(text: str) -> str:
    """Return an override with the option's name quoted: inf and 1e3 are names here, not numbers."""
    key, sets, value = text.partition("=")
    if key == STUDY and is_path(value) and find_study(value):  # a path may have any characters
        return f"{key}={quote(value)}"
    names = [name.strip() for name in value.split(",")]
    named = sets and not text.startswith("~") and all(map(_PLAIN.fullmatch, names))
    return f"{key}={','.join(map(quote, names))}" if named else text


def _parse_setting(text: str) -> Override:
    """Parse an override of a key, which need not exist.

    A value outside Hydra's grammar, such as ``Ring(-4)`` or ``5 µs``, becomes a text: the key's own
    parser explains the mistake.
    """
    key, _, value = text.partition("=")
    key = f"++{_normalize_key(text)}"
    try:
        return _PARSER.parse_override(f"{key}={_quote_names(value)}")
    except HydraException as error:
        if not value or value[0] in "[{'\"$" or _CALL.match(value):
            raise _syntax_error(text, error) from error
    try:
        return _PARSER.parse_override(f"{key}={quote(value)}")
    except HydraException as error:  # no value makes the key valid
        hint = "a key consists of names joined by dots, such as topology.shape"
        raise DimsweepError(
            "this key cannot be read", where=_normalize_key(text), hint=hint, code="bad-syntax"
        ) from error


def _quote_names(value: str) -> str:
    """Return a value with shapes and names of links in quotes, as Hydra's grammar requires."""
    if "'" in value or '"' in value or "$" in value:
        return value
    if "->" in value:
        return _LINK.sub(lambda link: quote(link[0].strip()), value)
    return _SHAPE.sub(lambda shape: quote(shape[0]), value)


def _normalize_key(text: str) -> str:
    """Return the key of an override with list indices as names: a.b[0] becomes a.b.0."""
    return _ENTRY.sub(r".\1", text.lstrip("+~").split("=", 1)[0])


def _unquote(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_unquote(each) for each in value]
    if isinstance(value, dict):
        return {_unquote(name): _unquote(each) for name, each in value.items()}
    return value


def _syntax_error(text: str, error: HydraException) -> DimsweepError:
    """Return the error for an override outside Hydra's grammar."""
    key, _, value = text.lstrip("+~").partition("=")
    if not key.strip("/"):
        return DimsweepError(f"{text!r} has no key", hint="write KEY=VALUE", code="bad-syntax")
    if _CALL.match(value) and " while evaluating " in str(error):
        reason = str(error).partition("': ")[2].strip().partition("\n")[0]
        reason = re.sub(r"mismatch type argument (\w+).*", r"its \1 is not a number", reason)
        hint = "choice(A,B), range(START,STOP,STEP), interval(LOW,HIGH); write texts in quotes"
        return DimsweepError(f"{value}: {reason}", where=key, hint=hint, code="bad-syntax")
    return DimsweepError(
        f"{value!r} cannot be read",
        where=key,
        hint="close brackets and quotes, and quote texts that have spaces or signs, such as: "
        "'a.list=[\"b0 >= b1\"]'",
        code="bad-syntax",
    )


def replace_axes(tree: Any, words: Sequence[ConfigOverride]) -> None:
    """Replace axes of the grid in ``tree`` by single values from overrides.

    The axis keeps this value, so that rows show it. Raises :class:`DimsweepError` for an override
    of a key below or above an axis' key: the values of the axis would replace it.
    """
    axes, portfolio = tree.get(AXES), tree.get("portfolio")
    axes = axes if isinstance(axes, MutableMapping) else {}
    weights = portfolio.get("workloads") if isinstance(portfolio, Mapping) else None
    grids = [i for i, word in enumerate(words) if word.key == AXES]
    groups = [word.key.partition(".")[0] for word in words]
    for i, word in enumerate(words):
        if grids and i < grids[-1]:  # a later override replaces the grid
            continue
        if word.is_sweep or not (word.is_choice or word.is_setting) or word.parsed.is_delete():
            continue
        if word.key == "workload" and word.is_choice and weights and "portfolio" not in groups[i:]:
            problem, hint = "the portfolio chooses the workloads", "give portfolio.workloads"
            raise DimsweepError(problem, where=word.key, hint=hint, code="conflict")
        value = word.parsed.value()
        if word.key in axes:
            axes[word.key] = [value]
        for axis, own in axes.items() if word.is_setting else ():
            # A mapping whose order counts replaces the existing mapping instead of merging into it.
            replaces = has_order(axis) and word.key.startswith(f"{axis}.")
            if replaces or _covers(axis, word.key, own) or _covers(word.key, axis, [value]):
                problem = f"each cell of the study's grid sets {axis}, which replaces this value"
                hint = f"{axis}=VALUE replaces the axis"
                raise DimsweepError(problem, where=word.key, hint=hint, code="conflict")


def _covers(key: Any, part: Any, values: Any) -> bool:
    """Return whether one of the ``values`` of the dotted ``key`` sets the key ``part`` below it."""
    above, rest = f"{key}.", str(part)
    if not rest.startswith(above) or is_group(str(key)) or not isinstance(values, Sequence):
        return False
    for value in values:
        for name in rest.removeprefix(above).split("."):
            if not isinstance(value, Mapping):
                return value is not None
            value = value.get(name)
        if value is not None:
            return True
    return False


def apply_sweeps(tree: Any, words: Sequence[ConfigOverride]) -> None:
    """Add overrides with several values to ``tree``.

    They become searched keys if the study searches, else axes of the grid.
    """
    for word in words:
        if not word.is_sweep:
            continue
        axes, searched = _find_mapping(tree, AXES), _find_mapping(tree, SEARCHED)
        if axes is None or searched is None:
            return  # the schema refuses them
        if (word.is_interval and not word.is_choice) or word.key in searched:
            axes.pop(word.key, None)
            searched[word.key] = word.parameter()
        else:
            axes[word.key] = word.values()


def _find_mapping(tree: Any, place: str) -> MutableMapping[str, Any] | None:
    """Return the mapping at a dotted key, created if missing; None if another value is there."""
    for name in place.split("."):
        if not isinstance(tree, MutableMapping):
            return None
        if tree.get(name) is None:
            tree[name] = {}
        tree = tree[name]
    return tree if isinstance(tree, MutableMapping) else None
