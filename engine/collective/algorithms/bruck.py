"""Bruck's all-to-all: few steps, in which others' bytes pass through members."""

from dimsweep.engine.collective.algorithms.algorithm import AllToAllOnly
from dimsweep.engine.collective.rounds import Shift, Shifts
from dimsweep.engine.collective.steps import Setting, Step


class Bruck(AllToAllOnly):
    """In step k everyone sends to the member 2^k further on all shards whose way has that bit
    (Bruck et al., 1997): log2 p steps, rounded up, of half of the bytes each."""

    name = "bruck"
    all_to_all_on = ("Switch",)

    def exchange_steps(self, setting: Setting) -> tuple[Step, ...]:
        return tuple(Step(1, setting.use.hops, share) for share in _shares(setting.p))

    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        return tuple((Shift(1 << k, share),) for k, share in enumerate(_shares(p)))

    def n_rounds(self, p: int) -> int:
        return (p - 1).bit_length()


def _shares(p: int) -> list[float]:
    """What is sent in each step: of the ways of 1 to p - 1 members those with bit k."""
    bits = range((p - 1).bit_length())
    return [sum(way >> k & 1 for way in range(1, p)) / p for k in bits]
