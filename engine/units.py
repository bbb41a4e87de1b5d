"""Physical quantities as users write them: a number and a unit, never a bare number.

``200 GB/s`` (10^9 bytes), ``200 GiB/s`` (2^30 bytes) and ``200 Gb/s`` (bits) are three different
bandwidths, and confusing them costs 7 % or a factor of eight, so nothing here guesses.  Parsing is
done by pint with a registry of its own that knows only the units of this field; decimal arithmetic
keeps ``0.1 GB/s`` exactly 100,000,000 B/s.
"""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Self, TypeGuard

from dimsweep.engine.errors import DimsweepError, format_yaml
from dimsweep.engine.quantity_hints import suggest_for_number, suggest_quantities

PICOSECONDS = 10**12  # in a second
MAX_PICOSECONDS = 2**62  # half of what the kernels' clocks count to: 53 days

_DEFINITIONS = """
byte = [information] = B
bit = byte / 8 = b
second = [time] = s
minute = 60 * second = min
hour = 60 * minute
day = 24 * hour
year = 365 * day
watt = [power] = W
joule = watt * second = J
watt_hour = watt * hour = Wh
hertz = 1 / second = Hz
FLOP = [operations]
USD = [money]
metre = [length] = m
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
kibi- = 1024 = Ki-
mebi- = 1048576 = Mi-
gibi- = 1073741824 = Gi-
tebi- = 1099511627776 = Ti-
milli- = 1e-3 = m-
micro- = 1e-6 = u- = µ-
nano- = 1e-9 = n-
pico- = 1e-12 = p-
"""


@dataclass(frozen=True)
class Unit:
    """A kind of quantity: its name, its base unit, and examples for error messages.

    Values of the kind are stored as numbers of the base unit.
    """

    kind: str
    base: str
    examples: str


BYTES = Unit("size", "B", "64 MB, 1 GiB")
BANDWIDTH = Unit("bandwidth", "B/s", "200 GB/s, 50 GiB/s, 1.6 Tb/s")
TIME = Unit("time", "s", "500 ns, 1.7 us")
LONG_TIME = Unit("time", "s", "30 s, 10 min, 2 day")
COMPUTE = Unit("operation count", "FLOP", "2 TFLOP")
COMPUTE_RATE = Unit("compute rate", "FLOP/s", "312 TFLOP/s")
FREQUENCY = Unit("frequency", "Hz", "940 MHz, 1.4 GHz")
MONEY = Unit("price", "USD", "10000 USD")
LENGTH = Unit("length", "m", "3 m, 30 m")
POWER = Unit("power", "W", "700 W, 20 MW")
ENERGY = Unit("energy", "J", "3 MJ, 1 kWh")
POWER_PER_BANDWIDTH = Unit("power of bandwidth", "W/(B/s)", "0.3 W/(GB/s)")
PRICE_OF_ENERGY = Unit("price of energy", "USD/J", "0.08 USD/kWh")
SAMPLE_RATE = Unit("throughput", "samples/s", "1200 samples/s")
TOKEN_RATE = Unit("throughput", "tokens/s", "460 k tokens/s")
PRICE_PER_BANDWIDTH = Unit("price of bandwidth", "USD/(B/s)", "7.8 USD/(GB/s)")
_BARE = {LONG_TIME: ("s", "min", "hour", "day")}  # what a bare number may be of, if not as usual


class Written:
    """Mixin for a number that remembers, as ``text``, how the user wrote it."""

    text: str

    def __new__(cls, value: float, text: str) -> Self:
        made = super().__new__(cls, value)  # type: ignore[call-arg]
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        number: Any = int if isinstance(self, int) else float
        return number(self), self.text


class Quantity(Written, float):
    """A number in the base unit of its kind (B, B/s, Hz, USD ...), with the user's text."""


class Duration(Written, int):
    """A time in whole picoseconds, with the user's text."""


class Bits(Written, int):
    """A rate in whole bits per second, with the user's text."""


@lru_cache(maxsize=1)
def _registry() -> Any:
    import pint

    registry: Any = pint.UnitRegistry(None, non_int_type=Decimal, autoconvert_to_preferred=False)
    registry.load_definitions(_DEFINITIONS.strip().splitlines())
    return registry


def parse(value: object, unit: Unit, *, zero: bool = False) -> float:
    """Return the quantity ``value`` as a number of ``unit.base``.

    Parameters
    ----------
    value
        A string such as ``"200 GB/s"``.
    unit
        The expected kind of quantity.
    zero
        Whether zero is valid.

    Raises
    ------
    DimsweepError
        For a bare number, an unknown or wrong unit, a negative or infinite number, and for zero
        unless ``zero`` is true.
    """
    return float(_parse_exactly(value, unit, zero))


def parse_time(value: object, *, zero: bool = True) -> int:
    """Return a time such as ``"1.7 us"`` in whole picoseconds (rounded to the nearest)."""
    picoseconds = _parse_exactly(value, TIME, zero) * PICOSECONDS
    if picoseconds > MAX_PICOSECONDS:
        problem = f"{value!r}; a time must be 53 days or less"
        raise DimsweepError(problem, hint="check its unit", code="out-of-range")
    return int(picoseconds.to_integral_value())


# The texts that are passed to pint, an expression parser that fails in many ways on other texts.
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?"
_NAME, _SIGN = r"[A-Za-zµ_]{1,20}", r"(?:\s*[*/]\s*|\s+)"
_FACTOR = rf"(?:{_NAME}|\(\s*{_NAME}(?:{_SIGN}{_NAME}){{0,8}}\s*\))"
_NUMBER_AND_UNIT = re.compile(rf"({_NUMBER})\s*({_FACTOR}(?:{_SIGN}{_FACTOR}){{0,8}})")
# Nobody means a thousandth of a byte: 400 mb/s is a typing error for mega.
_SHARE_OF_ONE = re.compile(
    r"(?<![A-Za-zµ])(?:[munpµ]|milli|micro|nano|pico)(?:B|b|bytes?|bits?|FLOP|USD|Hz|hertz)(?![A-Za-z])"
)


@lru_cache(maxsize=4096)
def _magnitude(text: str, base: str) -> Decimal | None:
    """Return the number of ``base`` units in a text, or ``None`` if it is not such a quantity."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or _SHARE_OF_ONE.search(match[2]):
        return None
    registry = _registry()
    from pint.errors import PintError

    try:
        return Decimal(registry.Quantity(Decimal(match[1]), match[2]).to(base).magnitude)
    except (PintError, ValueError):  # a unit that is unknown, or of something else; a "nan B"
        return None


_SHARE = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")


def parse_share(value: object) -> float:
    """Return a share such as ``"50 %"`` as 0.5. Raises :class:`DimsweepError` for anything else."""
    match = _SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        asked = f"did you mean {100 * value:g} %? " if _is_part(value) else ""
        hint = f"{asked}write percent, such as 50 %"
        raise DimsweepError(f"{format_yaml(value)} is not a share", hint=hint, code="wrong-type")
    return float(Decimal(match[1]) / 100)


def _is_part(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and 0 < value <= 1


def _parse_exactly(value: object, unit: Unit, zero: bool) -> Decimal:
    a_kind = f"{'an' if unit.kind[0] in 'aeiou' else 'a'} {unit.kind}"
    example = f"write a number and a unit, such as {unit.examples}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        asked = _asked(suggest_for_number(value, unit.base, _BARE.get(unit, ())))
        problem = f"{value} has no unit; this is {a_kind}"
        raise DimsweepError(problem, hint=asked + example, code="wrong-type")
    if not isinstance(value, str):
        problem = f"{format_yaml(value)} is not {a_kind}"
        raise DimsweepError(problem, hint=example, code="wrong-type")
    text = value.strip().replace("\u03bc", "µ")  # the letter mu for the sign micro
    number = _magnitude(text, unit.base)
    if number is None:
        number = _as_shown(text, unit)
    if number is None:
        asked = _asked(
            suggest_quantities(
                text, unit.base, lambda each: _magnitude(each, unit.base) is not None
            )
        )
        raise DimsweepError(f"{text!r} is not {a_kind}", hint=asked + example, code="wrong-type")
    size = float(number)
    if not math.isfinite(size) or size < 0 or (size == 0 and not zero):
        wanted = "zero or more" if zero else "more than zero"
        problem = f"{text!r}; {a_kind} must be {wanted} and finite here"
        raise DimsweepError(problem, hint=example, code="out-of-range")
    return number


_SHOWN = re.compile(rf"({_NUMBER})\s*(\S.*)")


def _as_shown(text: str, unit: Unit) -> Decimal | None:
    """Parse a quantity in a unit of :func:`format_quantity` that pint lacks: ``10.03 M USD``."""
    match = _SHOWN.fullmatch(text)
    powers = {name: power for power, name in _SCALES.get(unit, {}).items()}
    if match is None or match[2] not in powers:
        return None
    return Decimal(match[1]).scaleb(powers[match[2]])


def _asked(quantities: list[str]) -> str:
    return f"did you mean {' or '.join(quantities)}? " if quantities else ""


_PREFIXES = {9: "G ", 6: "M ", 3: "k ", 0: ""}  # with a space, for counted things: 460 k tokens/s
# The unit of each power of ten in which a quantity is written, the greatest first.
_SCALES = {
    TIME: {0: "s", -3: "ms", -6: "us", -9: "ns", -12: "ps"},
    BYTES: {15: "PB", 12: "TB", 9: "GB", 6: "MB", 3: "kB", 0: "B"},
    BANDWIDTH: {15: "PB/s", 12: "TB/s", 9: "GB/s", 6: "MB/s", 3: "kB/s", 0: "B/s"},
    MONEY: {9: "B USD", 6: "M USD", 3: "k USD", 0: "USD"},
    POWER: {6: "MW", 3: "kW", 0: "W"},
    ENERGY: {9: "GJ", 6: "MJ", 3: "kJ", 0: "J"},
    SAMPLE_RATE: {power: f"{prefix}samples/s" for power, prefix in _PREFIXES.items()},
    TOKEN_RATE: {power: f"{prefix}tokens/s" for power, prefix in _PREFIXES.items()},
}


def format_quantity(value: float, unit: Unit, digits: int | None = None) -> str:
    """Format ``value``, in ``unit.base``, for people: ``722.412 ms``, ``34.51 M USD``.

    Parameters
    ----------
    value, unit
        The quantity. Zero has no sign, and NaN is a dash.
    digits
        The exact number of significant digits, so that a column of a table is equally exact.
        Without it there are up to six digits and no trailing zeros.

    Notes
    -----
    The unit is the greatest that leaves at least 1 before the decimal point.
    """
    if math.isnan(value):
        return "-"
    if value == 0:
        return f"0 {unit.base}"
    rounded = float(f"{value:.{(digits or 6) - 1}e}")  # 999.9999 ms is 1 s
    power, name = _scale(rounded, unit)
    number = rounded / 10.0**power
    return f"{f'{number:#.{digits}g}'.rstrip('.') if digits else f'{number:.6g}'} {name}"


def has_scale(unit: Unit) -> bool:
    """Return whether quantities of this kind are printed in decimal multiples of the base unit."""
    return unit in _SCALES


def scale(value: float, unit: Unit) -> tuple[float, str]:
    """Return the factor from ``unit.base`` to the multiple that suits ``value``, and its name."""
    power, name = _scale(value, unit)
    return 10.0**-power, name


def list_unit_names(unit: Unit) -> tuple[str, ...]:
    """Return the names of the decimal multiples in which quantities of this kind are printed."""
    return tuple(_SCALES[unit].values())


def unit_size(name: str, unit: Unit) -> float:
    """Return the size in ``unit.base`` of the multiple ``name`` (see :func:`list_unit_names`)."""
    return next(10.0**power for power, each in _SCALES[unit].items() if each == name)


def _scale(value: float, unit: Unit) -> tuple[int, str]:
    scales = _SCALES[unit]
    if value == 0 or not math.isfinite(value):
        return 0, scales[0]
    exponent = int(f"{value:e}".split("e")[1])
    power = next((power for power in scales if power <= exponent), min(scales))
    return power, scales[power]


def format_bandwidth(value: float) -> str:
    """Format a bandwidth in bytes per second, in decimal units."""
    return format_quantity(value, BANDWIDTH)


def format_bytes(value: float) -> str:
    """Format a size in bytes, in decimal units."""
    return format_quantity(value, BYTES)


def format_time(picoseconds: float) -> str:
    """Format a time in picoseconds."""
    return format_quantity(picoseconds / PICOSECONDS, TIME)


def format_duration(seconds: float) -> str:
    """Format a waiting time in seconds: 40 s, 12 min, 3.5 h, 2.1 days."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            digits = ".2g" if seconds < 10 * size else ",.0f"
            return f"{seconds / size:{digits}} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else format_quantity(seconds, TIME, 3)


def format_money(usd: float) -> str:
    """Format an amount of money in USD."""
    return format_quantity(usd, MONEY, 4)


def format_performance_per_cost(value: float, digits: int = 4) -> str:
    """Format iterations per second per USD, as iterations per second per million USD."""
    return "-" if math.isnan(value) else f"{value * 1e6:.{digits}g} it/s per M USD"
