"""Ring: every member hands shards on to the next one, p - 1 times."""

from dataclasses import replace

from dimsweep.engine.collective.algorithms.algorithm import ScatterGather
from dimsweep.engine.collective.rounds import Shift, Shifts
from dimsweep.engine.collective.steps import Setting, Step
from dimsweep.engine.kinds import CollectiveKind


class RingAlgorithm(ScatterGather):
    """p - 1 steps to the neighbour.  On a circle each step goes half one way and half the other."""

    name = "ring"

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        """On a line (part of a ring) the message of the last member back to the first crosses every
        hop.  A chain of p - 1 dependent steps meets that message at most once and never twice, so
        the other p - 2 steps take a neighbour's hops each."""
        p, use = setting.p, setting.use
        step = Step(p - 1, use.hops, 1 / p, 1 / p, messages=use.sharers)
        if use.wrap_hops == use.hops:
            return (step,)
        once = replace(step, count=1, hops=use.wrap_hops)
        return (once, replace(step, count=p - 2)) if p > 2 else (once,)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        if not circle:
            return ((Shift(1, 1 / p),),) * (p - 1)
        return ((Shift(1, 0.5 / p, way=0), Shift(-1, 0.5 / p, way=1)),) * (p - 1)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * (p - 1) * (2 if circle else 1)
