"""Quantities with units: exact, explicit, and refused whenever they are neither."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.units import (
    BANDWIDTH,
    BYTES,
    COMPUTE,
    COMPUTE_RATE,
    ENERGY,
    MAX_PICOSECONDS,
    MONEY,
    POWER,
    PRICE_PER_BANDWIDTH,
    SAMPLE_RATE,
    TIME,
    TOKEN_RATE,
    Unit,
    format_bandwidth,
    format_bytes,
    format_money,
    format_performance_per_cost,
    format_quantity,
    format_time,
    parse,
    parse_time,
    scale,
)
from tests.support.refused import refused

DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}

# Every unit's factor, from first principles.
SIZES = {f"{name}B": Fraction(10**power) for name, power in DECIMAL.items()}
SIZES |= {f"{name}B": Fraction(2**power) for name, power in BINARY.items()}
SIZES |= {f"{unit[:-1]}b": factor / 8 for unit, factor in SIZES.items()}
SIZES |= {"byte": Fraction(1), "gigabyte": Fraction(10**9), "gibibyte": Fraction(2**30)}
TIMES = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "min": Fraction(60),
    "hour": Fraction(3600),
}
BANDWIDTHS = {f"{unit}/s": factor for unit, factor in SIZES.items()}
FLOPS = {f"{name}FLOP": Fraction(10**power) for name, power in DECIMAL.items()}
KNOWN: dict[Unit, dict[str, Fraction]] = {
    BYTES: SIZES,
    TIME: TIMES,
    BANDWIDTH: BANDWIDTHS,
    COMPUTE: FLOPS,
    COMPUTE_RATE: {f"{unit}/s": factor for unit, factor in FLOPS.items()},
    MONEY: {"USD": Fraction(1), "kUSD": Fraction(1000), "MUSD": Fraction(10**6)},
    PRICE_PER_BANDWIDTH: {f"USD/({unit})": 1 / factor for unit, factor in BANDWIDTHS.items()},
}
KNOWN_PAIRS = [(kind, unit) for kind, units in KNOWN.items() for unit in units]


def test_decimal_binary_and_bit_units_differ() -> None:
    assert parse("200 GB/s", BANDWIDTH) == 200 * 10**9
    assert parse("200 GiB/s", BANDWIDTH) == 200 * 2**30
    assert parse("200 Gb/s", BANDWIDTH) == 25 * 10**9


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0.1 GB/s", BANDWIDTH, 100_000_000),
        ("1.6 Tb/s", BANDWIDTH, 200 * 10**9),
        ("64 MB", BYTES, 64 * 10**6),
        ("312 TFLOP/s", COMPUTE_RATE, 312 * 10**12),
        ("1.5e3 GB", BYTES, 1.5 * 10**12),
        (".5 kB", BYTES, 500),
        ("7 GB/s", BANDWIDTH, 7 * 10**9),
    ],
)
def test_decimals_are_exact(text: str, kind: Unit, value: float) -> None:
    assert parse(text, kind) == value


@pytest.mark.parametrize("text", ["200GB/s", " 200 GB/s ", "200  GB/s", "200 GB / s", "+200 GB/s"])
def test_spaces_do_not_matter(text: str) -> None:
    assert parse(text, BANDWIDTH) == 200e9


@pytest.mark.parametrize(
    ("text", "picoseconds"),
    [
        ("1.7 us", 1_700_000),
        ("500 ns", 500_000),
        ("0 ns", 0),
        ("0.1 s", 10**11),
        ("1 ps", 1),
        ("0.4 ps", 0),
        ("0.6 ps", 1),
        ("1234567.123456 s", 1234567123456 * 10**6),
    ],
)
def test_times_are_whole_picoseconds(text: str, picoseconds: int) -> None:
    time = parse_time(text)
    assert isinstance(time, int) and time == picoseconds


def test_zero_is_allowed_only_where_it_makes_sense() -> None:
    assert parse("0 B", BYTES, zero=True) == 0
    with refused("", "out-of-range", "0"):
        parse("0 B", BYTES)
    with refused("", "out-of-range", "0"):
        parse_time("0 s", zero=False)


@pytest.mark.parametrize("number", [200, 200.0, 0, -1, 1e300])
def test_bare_numbers_are_refused(number: float) -> None:
    with refused("", "wrong-type", str(number), "200 GB/s"):
        parse(number, BANDWIDTH)


@pytest.mark.parametrize(
    "value",
    [
        "200",  # a number in quotes is still bare
        "",
        "GB/s",
        "fast",
        None,
        True,
        ["200 GB/s"],
        {"total": "500 GB/s"},
        "200 GB/s 300",
        "200 GB/s, 300 GB/s",
        "1,5 GB/s",
        "1_000 GB/s",
        "0x10 GB/s",
        "two GB/s",
        "200 GB/s/0",
    ],
)
def test_other_values_are_refused(value: object) -> None:
    with refused("", "wrong-type", "bandwidth"):
        parse(value, BANDWIDTH)


@pytest.mark.parametrize(
    "text", ["200 GB", "200 s", "200 GB*s", "200 GFLOP/s", "7 USD", "1 GB/s/s"]
)
def test_other_kinds_of_quantity_are_refused(text: str) -> None:
    with refused("", "wrong-type", "bandwidth"):
        parse(text, BANDWIDTH)


@pytest.mark.parametrize(
    "text",
    ["-1 GB/s", "-0.1 GB/s", "inf GB/s", "nan GB/s", "1e999 GB/s", "1e300 GB/s", "-inf GB/s"],
)
def test_negative_and_endless_quantities_are_refused(text: str) -> None:
    code: Code = "wrong-type" if "inf" in text or "nan" in text else "out-of-range"
    with refused("", code, text):
        parse(text, BANDWIDTH)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("-1 ns", "out-of-range"),
        ("1e999 s", "out-of-range"),
        ("60 days", "out-of-range"),
        ("5 GB", "wrong-type"),
        ("5", "wrong-type"),
    ],
)
def test_impossible_times_are_refused(text: str, code: Code) -> None:
    with refused("", code, text):
        parse_time(text)


@given(
    number=st.decimals(0, 10**9, allow_nan=False, allow_infinity=False, places=6),
    pair=st.sampled_from(KNOWN_PAIRS),
)
def test_any_decimal_in_any_unit_is_its_product(number: Decimal, pair: tuple[Unit, str]) -> None:
    kind, unit = pair
    exact = Fraction(number) * KNOWN[kind][unit]
    value = parse(f"{number:f} {unit}", kind, zero=True)
    # Rounded twice, to 28 decimal digits and to a float: at most the last bit differs.
    assert value == pytest.approx(float(exact), rel=2**-52, abs=0)


@given(
    number=st.decimals(0, 10**6, allow_nan=False, allow_infinity=False, places=12),
    unit=st.sampled_from(sorted(TIMES)),
)
def test_any_time_is_rounded_to_the_nearest_picosecond(number: Decimal, unit: str) -> None:
    exact = Fraction(number) * TIMES[unit] * 10**12
    assume(exact <= MAX_PICOSECONDS)
    assert abs(parse_time(f"{number:f} {unit}") - exact) <= Fraction(1, 2)


@given(
    st.one_of(
        st.text(max_size=30),
        st.from_regex(r"[-+]?[0-9.]{1,4}([eE][-+]?[0-9]{1,4})? ?[A-Za-z0-9µ/*()^ .+-]{0,12}"),
        st.integers(),
        st.floats(),
        st.none(),
    ),
    st.sampled_from(list(KNOWN)),
)
def test_anything_else_is_an_error_that_teaches(value: object, kind: Unit) -> None:
    try:
        number = parse(value, kind)
    except DimsweepError as error:
        assert kind.kind in str(error) and kind.examples in error.hint
    else:
        assert isinstance(value, str) and math.isfinite(number) and number > 0


@pytest.mark.parametrize("unit", ["GB/s", "GB", "ns", "TFLOP/s", "USD", "USD/(GB/s)"])
def test_every_kind_knows_only_its_own_units(unit: str) -> None:
    fitting = []
    for kind in KNOWN:
        try:
            parse(f"1 {unit}", kind)
        except DimsweepError:
            continue
        fitting.append(kind)
    assert len(fitting) == 1


def test_formats_for_people() -> None:
    assert format_bandwidth(151.1811e9) == "151.181 GB/s"
    assert format_bandwidth(2e12) == "2 TB/s"
    assert format_bytes(805306368) == "805.306 MB"
    assert format_bytes(12) == "12 B"
    assert format_time(722_411_781_000) == "722.412 ms"
    assert format_time(1_700_000) == "1.7 us"
    assert format_time(0) == format_time(-0.0) == "0 s"
    assert format_money(34_508_892) == "34.51 M USD"
    assert format_money(12.5) == "12.50 USD"
    assert format_performance_per_cost(6.9e-8) == "0.069 it/s per M USD"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.7224118, 4, "722.4 ms"),
        (0.1, 3, "100 ms"),
        (80e-6, 4, "80.00 us"),
        (1e-12, 4, "1.000 ps"),
        (0.99999999, 4, "1.000 s"),  # not 1000. ms
        (0.99999999, None, "1 s"),
        (-0.005, None, "-5 ms"),
        (3e-16, None, "0.0003 ps"),
        (math.nan, 4, "-"),
        (math.inf, None, "inf s"),
    ],
)
def test_quantities_for_people(value: float, digits: int | None, text: str) -> None:
    assert format_quantity(value, TIME, digits) == text


@given(
    st.floats(1e-30, 1e30) | st.floats(-1e30, -1e-30) | st.sampled_from([0.0, -0.0]),
    st.sampled_from([TIME, BYTES, BANDWIDTH, MONEY]),
    st.none() | st.integers(1, 8),
)
def test_a_formatted_quantity_is_the_quantity(value: float, unit: Unit, digits: int | None) -> None:
    number, name = format_quantity(value, unit, digits).split(" ", 1)
    factor, same = scale(float(f"{value:.{(digits or 6) - 1}e}"), unit)
    assert name == same
    assert float(number) == pytest.approx(value * factor, rel=0.51 * 10.0 ** (1 - (digits or 6)))
    assert number.startswith("-") == (value < 0)
    if unit is TIME and 1e-12 <= abs(value) < 1:
        assert 1 <= abs(float(number)) < 1000


HOSTILE = (
    *("1 " + "B" * 10**6, "1 " + "B/" * 10**5 + "B", "1 " + "(" * 10**5, "1 B" + " " * 10**5 + "/"),
    *("1 B**2", "1 nan", "1 if", "1 B()", "1 lambda", "1 B;B", "1 2 B", "1 inf B", "1 \ud800"),
)


@given(
    value=st.floats(1e-11, 1e18),
    unit=st.sampled_from([TIME, BYTES, BANDWIDTH, MONEY, POWER, ENERGY, SAMPLE_RATE, TOKEN_RATE]),
)
def test_what_is_read_can_be_typed(value: float, unit: Unit) -> None:
    assert parse(format_quantity(value, unit, 17), unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("number", range(len(HOSTILE)))  # not the texts, which would be names
def test_hostile_units_are_refused_at_once(number: int) -> None:
    with refused("", "wrong-type", "size"):
        parse(HOSTILE[number], BYTES)


@given(
    st.from_regex(r"[$~]?[0-9][0-9,._ ]{0,6} ?[kKmMgGtTbBsSpPiIuUnNeEwW/$]{0,6}", fullmatch=True),
    st.sampled_from(sorted(KNOWN, key=lambda unit: unit.kind)),
)
def test_what_is_asked_about_is_a_quantity(text: str, unit: Unit) -> None:
    try:
        parse(text, unit, zero=True)
    except DimsweepError as error:
        asked, question, _ = error.hint.partition("? write")
        for meant in asked.removeprefix("did you mean ").split(" or ") if question else ():
            parse(meant, unit, zero=True)


@pytest.mark.parametrize("text", ["400 mb/s", "1 mB/s", "5 nB/s", "3 millibyte/s", "2 µb/s"])
def test_a_thousandth_of_a_byte_is_no_quantity(text: str) -> None:
    with refused("", "wrong-type", "bandwidth"):
        parse(text, BANDWIDTH)
