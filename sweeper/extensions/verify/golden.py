"""Where recorded results lie: an installed dimsweep brings the small ones along."""

from pathlib import Path

from dimsweep.engine import DimsweepError

_HERE = Path(__file__).resolve().parents[2]
_HOMES = (_HERE.parent / "golden", _HERE.parent / "tests" / "golden")


def recorded(name: str, given: str) -> Path:
    """The recorded results of that name: a file or a folder.

    Raises :class:`DimsweepError` saying how they are ``given`` where there are none.
    """
    for home in _HOMES:
        if (home / name).exists():
            return home / name
    raise DimsweepError(
        f"it compares recorded runs, and those of {name} are not installed",
        where=given,
        hint=f"give their folder: tests/golden/{name} of dimsweep's source, or your own",
    )
