"""The communicator groups that traces name: ``{"1": [0, 1, ...], ...}``, a file of JSON."""

from pathlib import Path

from pydantic import StrictInt

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.fields import read_json, validated


def read_groups(path: Path | None, n_npus: int) -> dict[str, tuple[int, ...]]:
    """The ranks of each group, in file order; no file is no groups.

    Raises :class:`DimsweepError` naming file and group.
    """
    if path is None:
        return {}
    groups = validated(dict[str, tuple[StrictInt, ...]], read_json(path), path)
    for name, ranks in groups.items():
        known = all(0 <= rank < n_npus for rank in ranks)
        if not ranks or len(set(ranks)) < len(ranks) or not known:
            raise DimsweepError(
                f"{ranks!r} is no list of different ranks below {n_npus}", where=f"{path}: {name}"
            )
    return groups
