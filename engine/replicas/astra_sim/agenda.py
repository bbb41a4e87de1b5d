"""What the compiled kernels have in common: how they are compiled, and what is to come."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.kernels.jit import Compiler
from engine.replicas.astra_sim.tables import Ints, Longs

_here = Path(__file__).resolve().parent
_names = ("agenda", "run_nodes", "run_plans", "tables")
_room = Compiler([_here / f"{name}.py" for name in _names])
kernel, inlined = _room.kernel, _room.inlined
# Outcomes.  TOO_LONG: beyond what an int64 surely holds.
FINISHED, STUCK, TIE, TOO_LONG = range(4)


class Agenda(NamedTuple):
    """What is to come: a heap of times (ns) and what ends then; ``size[0]`` entries."""

    times: Longs
    what: Ints
    size: Ints


def empty_agenda(n: int) -> Agenda:
    return Agenda(np.empty(n, np.int64), np.empty(n, np.int32), np.zeros(1, np.int32))


@inlined
def push(agenda: Agenda, time: int, what: int) -> None:
    at = agenda.size[0]
    agenda.size[0] += 1
    while at > 0 and agenda.times[(at - 1) // 2] > time:
        agenda.times[at], agenda.what[at] = (
            agenda.times[(at - 1) // 2],
            agenda.what[(at - 1) // 2],
        )
        at = (at - 1) // 2
    agenda.times[at], agenda.what[at] = time, what


@inlined
def pop(agenda: Agenda) -> int:
    """What comes next."""
    taken = agenda.what[0]
    size = agenda.size[0] - 1
    agenda.size[0] = size
    time, what, at = agenda.times[size], agenda.what[size], 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and agenda.times[child + 1] < agenda.times[child]:
            child += 1
        if agenda.times[child] >= time:
            break
        agenda.times[at], agenda.what[at] = agenda.times[child], agenda.what[child]
        at = child
    agenda.times[at], agenda.what[at] = time, what
    return taken
