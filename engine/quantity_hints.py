"""Suggestions for texts that are not valid quantities: spellings of other tools.

Nothing is guessed silently: :func:`engine.units.parse` rejects the text and asks "did you mean".
If a spelling has two readings (``gb/s`` is bits or bytes, ``64M`` decimal or binary), the question
offers both.

"""

import re
from collections.abc import Callable, Iterator, Sequence

# Texts of numbers that are no numbers of ours: "3,2", "1,000", "1_000", "1 000".
_NUMBER = re.compile(r"[-+]?\d[\d.,_ ]*(?:[eE][-+]?\d{1,3})?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:[,_ ]\d{3})+(?:\.\d+)?")

# Names of units elsewhere, and ours.
_WORDS = (
    (r"\s+per\s+", "/"),
    (r"bytes?|octets?", "B"),
    (r"bits?", "b"),
    (r"flops?(?!/)", "FLOP"),
    (r"(?<![a-z])([munpµ]?)sec(?:ond)?s?", r"\1s"),
    (r"us\$|usd|\$|dollars?", "USD"),
    (r"watts?", "W"),
    (r"joules?", "J"),
    (r"hertz", "Hz"),
    (r"met(?:er|re)s?", "m"),
)

# By the base unit: what users leave out or write for a part of a unit, each with what it may stand
# for; the first that makes a quantity is asked about, with all that it may stand for.
_SLIPS: dict[str, tuple[tuple[str, Sequence[str]], ...]] = {
    "B/s": (
        (r"(?<=[Bb])(?:ps|s|/S)$", ["/s"]),
        (r"(?<=[kMGTP])(?:[Bb]?[Ee])$", ["b/s"]),  # Ethernet: 400GE, 400GbE
        (r"(?<=[Bb])$", ["/s"]),
        (r"(?<=[kMGTP])$", ["b/s"]),  # links are sold in bits
        (r"(?<=[kMGTP]i)$", ["B/s"]),
        (r"(?<=[kMGTP])/s$", ["b/s", "B/s"]),
    ),
    "B": ((r"(?<=[kMGT])$", ["B", "iB"]), (r"(?<=[KMGT]i)$", ["B"])),
    "s": (
        (r"^m$", ["ms", "min"]),
        (r"(?<=^[munpµ])$", ["s"]),
        (r"^(?:h|hrs?)$", ["hour"]),
        (r"^d$", ["day"]),
        (r"^mins?$", ["min"]),
    ),
    "FLOP/s": (
        (r"(?:FLOP)/S$", ["FLOP/s"]),
        (r"(?<=FLOP)(?:s|ps|S)?$", ["/s"]),
        (r"(?<=[kMGTPE])(?:F|OPS?|OP/s)?$", ["FLOP/s"]),
    ),
    "FLOP": ((r"(?<=[kMGTPE])(?:F|OPS?)?$", ["FLOP"]), (r"(?<=FLOP)(?:s|S|/s)$", [""])),
    "Hz": ((r"(?<=[kMG])$", ["Hz"]),),
    "W": ((r"(?<=^[kMG])$", ["W"]),),
    "USD": ((r"(?<=^[kMG])$", ["USD"]), (r"^B(?:USD)?$", ["GUSD"]), (r"^$", ["USD"])),
    "USD/(B/s)": (
        (r"^USD/([kMGTP]?[Bb])(?:ps|/s)?$", [r"USD/(\1/s)"]),
        (r"^USD$", ["USD/(GB/s)"]),
    ),
    "W/(B/s)": ((r"^W/([kMGTP]?[Bb])(?:ps|/s)?$", [r"W/(\1/s)"]), (r"^W$", ["W/(GB/s)"])),
}
# What a bare number is asked to be; a million and more are base units.
_BARE: dict[str, Sequence[str]] = {
    "B/s": ["GB/s", "Gb/s"],
    "B": ["MB", "GB"],
    "s": ["ns", "us"],
    "FLOP/s": ["TFLOP/s"],
    "FLOP": ["TFLOP"],
    "Hz": ["MHz", "GHz"],
    "USD": ["USD"],
    "W": ["W"],
    "m": ["m"],
    "USD/(B/s)": ["USD/(GB/s)"],
    "W/(B/s)": ["W/(GB/s)"],
}
_LARGE = 1e6
_LONGEST = 40  # characters; longer texts are no slips of a quantity
_PREFIXES = "kmunpMGTPE"


def suggest_quantities(text: str, base: str, is_quantity: Callable[[str], bool]) -> list[str]:
    """Return the quantities with unit ``base`` that ``text`` may mean, most likely first.

    Each is a string in valid spelling, such as ``200 GB/s``; ``is_quantity`` tests a candidate.
    Returns an empty list if no quantity is similar.
    """
    if len(text) > _LONGEST:
        return []
    text = text.removeprefix("~").strip()
    if text.startswith("$"):
        text = f"{text[1:]} USD"
    found = _NUMBER.match(text)
    if found is None:
        return []
    numbers, unit = _numbers(found[0].strip()), text[found.end() :].strip()
    for units in _units(unit, base):
        asked = [f"{number} {each}".strip() for number in numbers for each in units]
        if asked := [each for each in dict.fromkeys(asked) if is_quantity(each)]:
            return asked
    return []


def suggest_for_number(number: float, base: str, bare: Sequence[str] = ()) -> list[str]:
    """Return the quantities that ``number``, written without a unit, may mean.

    The suggested units are ``bare`` if given, else common multiples of ``base``.
    """
    if not 0 < number < float("inf"):
        return []
    units = [base] if number >= _LARGE and base != "USD" else bare or _BARE.get(base, [base])
    return [f"{number:.15g} {unit}" for unit in units]


def _numbers(text: str) -> list[str]:
    """Return ``text`` as a valid number, or two readings if a comma may be a decimal point."""
    dotted = [text.replace(",", ".")] if text.count(",") == 1 and "." not in text else []
    if _THOUSANDS.fullmatch(text):
        return [re.sub(r"[,_ ]", "", text), *dotted]
    return dotted or [text.replace("_", "").replace(" ", "")]


def _units(unit: str, base: str) -> Iterator[Sequence[str]]:
    """Yield lists of units that a misspelt ``unit`` may mean, smallest changes first."""
    for words in _WORDS:
        unit = re.sub(*words, unit, flags=re.IGNORECASE)
    unit = re.sub(r"\s+", "", unit)
    for spelled in (unit, *_respelled(unit)):
        each = [spelled] if isinstance(spelled, str) else spelled
        yield each
        for slip, meanings in _SLIPS.get(base, ()):
            yield [
                re.sub(slip, meaning, one, count=1)
                for one in each
                if re.search(slip, one)
                for meaning in meanings
            ]


def _respelled(unit: str) -> Iterator[list[str]]:
    """Yield ``unit`` in other upper and lower case: GB/s and Gb/s for ``gb/s``, kW for ``kw``."""
    lower = unit.casefold()
    head, rest = lower[:1], lower[1:]
    heads = [p for p in _PREFIXES if p.casefold() == head] or [head]
    prefixed, plain = [], []
    for own in ("B", "b", "s", "W", "Wh", "J", "Hz", "FLOP", "USD"):
        pattern = rf"^(i?){own.casefold()}(ps|/s)?$"
        if match := re.fullmatch(pattern, rest):
            prefixed += [f"{h}{match[1]}{own}{match[2] or ''}" for h in heads]
        if match := re.fullmatch(rf"{own.casefold()}(ps|/s)?", lower):
            plain.append(f"{own}{match[1] or ''}")
    yield prefixed or plain
    yield [f"{h}{rest}" for h in heads if len(lower) == 1]
