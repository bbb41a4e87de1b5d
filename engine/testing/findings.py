"""What a self-check found wrong."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import islice

from dimsweep.engine.errors import DimsweepError

_MOST = 5  # findings that are told: the first ones are the causes of the rest


def faults_of_copies(thing: object) -> Iterator[str]:
    """Whether a copy of a thing is another one."""
    if deepcopy(thing) != thing:
        yield "a copy of it, which another process gets, is not equal to it"


def told(findings: Iterable[str], where: str) -> None:
    """Raise :class:`DimsweepError` with the first ``findings``, if there are any."""
    first = list(islice(findings, _MOST + 1))
    if not first:
        return
    more = ["and more"] if len(first) > _MOST else []
    raise DimsweepError("; ".join([*dict.fromkeys(first[:_MOST]), *more]), where=where)
