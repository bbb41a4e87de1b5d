"""Pairwise exchange: an all-to-all in which every member has one peer at a time."""

from dimsweep.engine.collective.algorithms.algorithm import AllToAllOnly
from dimsweep.engine.collective.rounds import Shift, Shifts
from dimsweep.engine.collective.steps import Setting, Step


class Pairwise(AllToAllOnly):
    """In step j everyone sends its shard to the member j further on, and takes that of the member
    j before (Thakur, Rabenseifner and Gropp, 2005): p - 1 steps, in which no two send to one."""

    name = "pairwise"
    all_to_all_on = ("Switch",)

    def exchange_steps(self, setting: Setting) -> tuple[Step, ...]:
        return (Step(setting.p - 1, setting.use.hops, 1 / setting.p),)

    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        return tuple((Shift(j, 1 / p),) for j in range(1, p))

    def n_rounds(self, p: int) -> int:
        return p - 1
