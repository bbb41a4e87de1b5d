"""The JSON files of PyTorch."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

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
