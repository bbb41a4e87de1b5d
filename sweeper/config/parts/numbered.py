"""NPUs by their numbers: [0-7, 12], every second one of 16-31:2."""

import re
from typing import Any

from dimsweep.engine import DimsweepError, in_yaml

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)(?:\s*:\s*([1-9]\d*))?")


def numbers(value: Any) -> tuple[int | str, ...]:
    """Numbers of NPUs, and texts such as 8-15 or 0-31:2, as a list, or one alone."""
    listed = value if isinstance(value, (list, tuple)) else [value]
    for i, each in enumerate(listed):
        fits = isinstance(each, str) and _RANGE.fullmatch(each)
        if not fits and (not isinstance(each, int) or isinstance(each, bool)):
            what = f"{in_yaml(each)} is no NPU"
            raise DimsweepError(what, where=f"[{i}]", hint="its number, or several, such as 8-15")
    return tuple(listed)


def spread(listed: tuple[int | str, ...], n_npus: int) -> tuple[int, ...]:
    """All NPUs that are listed, one by one; no more than one beyond the ``n_npus`` that there are,
    so that who looks finds it."""
    npus = list[int]()
    for each in listed:
        told = _RANGE.fullmatch(each) if isinstance(each, str) else None
        first, last = (int(told[1]), min(int(told[2]), n_npus)) if told else (int(each),) * 2
        npus += range(first, last + 1, int(told[3] or 1) if told else 1)
    return tuple(npus)
