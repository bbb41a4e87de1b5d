"""The communicator groups that traces name: ``{"1": [0, 1, ...], ...}``, a file of JSON."""

from __future__ import annotations

from pathlib import Path

from engine.errors import DimsweepError
from engine.formats.fields import is_whole, read_json


def read_groups(path: Path | None, n_npus: int) -> dict[str, tuple[int, ...]]:
    """The ranks of each group, in file order; no file is no groups.

    Raises :class:`DimsweepError` naming file and group.
    """
    if path is None:
        return {}
    fields, groups = read_json(path), {}
    for name, ranks in fields.raw.items():
        ok = isinstance(ranks, list) and all(
            is_whole(rank) and 0 <= rank < n_npus for rank in ranks
        )
        if not ok or not ranks or len(set(ranks)) < len(ranks):
            raise DimsweepError(
                f"{ranks!r} is no list of different ranks below {n_npus}", where=fields.where(name)
            )
        groups[str(name)] = tuple(ranks)
    return groups
