"""A collective among alike ranks message by message, with nothing else going on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.formats.astra_sim.inputs import Inputs
from engine.replicas.astra_sim.clock import Clock
from engine.replicas.astra_sim.delays import Unaware
from engine.replicas.astra_sim.fold import Folding
from engine.replicas.astra_sim.npu import Npu, Wires
from engine.replicas.astra_sim.plans import Origin, planner_of
from engine.replicas.astra_sim.tables import LONGEST, Longs


class _Diary(Clock):
    """A clock that remembers when anything happened."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks: set[int] = set()

    def at(self, time: int, call: Callable[[], None]) -> None:
        self.ticks.add(time)
        super().at(time, call)


def busy_ticks(inputs: Inputs, folding: Folding, origin: Origin) -> Longs | None:
    """When anything happens (ns from its start), in order; the last is its end.

    Nothing if something still happens after its end, or that is too far away.
    """
    clock, form = _Diary(), origin.form
    wires = Wires(Unaware(clock, inputs.network), folding.kind, rendezvous=False)
    planner = planner_of(inputs, origin.rank, clock)
    planner.state = origin.state
    npu = Npu(origin.rank, clock, wires, inputs, planner, {form.group: form}, None)
    ends: list[int] = []

    def done() -> None:
        ends.append(clock.now)

    if form.ranks:
        npu.group_collective(form.kind, form.n_bytes, form.group, form.ranks, 0, done)
    else:
        npu.collective(form.kind, form.n_bytes, form.involved, 0, done)
    clock.run()
    ticks = sorted(clock.ticks)
    return np.array(ticks, np.int64) if ends == [ticks[-1]] and ends[0] <= LONGEST else None
