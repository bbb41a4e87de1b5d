"""The JSON files of PyTorch."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_bytes
from dimsweep.engine.formats.fields import explained


class Group(BaseModel):
    """A process group, as both of the files write it."""

    pg_name: Any
    ranks: list[int] = []


def names(groups: Iterable[Group]) -> dict[str, Sequence[int]]:
    """The ranks of groups by name."""
    return {str(group.pg_name): group.ranks for group in groups}


def first_fault(error: ValidationError) -> str:
    """What is wrong first, with its key."""
    fault = explained(error)
    return ": ".join(filter(None, (fault.where, fault.what)))


def read_object(path: Path, what: str) -> Mapping[str, Any]:
    """A JSON object, plain or gzip.  Raises :class:`DimsweepError` if ``path`` holds none."""
    try:
        content = json.loads(read_bytes(path, what))
    except (ValueError, RecursionError) as error:
        raise DimsweepError(f"cannot read the {what}: {error}", where=str(path)) from error
    if not isinstance(content, dict):
        raise DimsweepError(f"this is no {what}: not a JSON object", where=str(path))
    return content
