"""Direct: every member sends each other one its shard, in one step."""

from dimsweep.engine.collective.algorithms.algorithm import ScatterGather
from dimsweep.engine.collective.rounds import MemberRounds, Shift, Shifts, in_step
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind


class Direct(ScatterGather):
    """Everyone to everyone: side by side on links of their own, or one after another through a
    port.  It is also the all-to-all wherever no member relays for others."""

    name = "direct"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        if kind is CollectiveKind.ALL_TO_ALL:
            p = setting.p
            return PhaseSteps((_exchange(setting, 0.0),), setting.use.share, 1.0, (p - 1) / p)
        return super().steps(kind, setting)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind is CollectiveKind.ALL_TO_ALL:
            return in_step(self.scatter_rounds(p, circle), p, reduces=False)
        return super().rounds(kind, p, circle)

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        return (_exchange(setting, (setting.p - 1) / setting.p),)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        """Everyone begins with another peer, so that no port is sent to by two at a time."""
        return (tuple(Shift(j, 1 / p) for j in range(1, p)),)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * (p - 1)


def _exchange(setting: Setting, reduce: float) -> Step:
    p = setting.p
    messages = 1 if setting.block.side_by_side else p - 1
    return Step(1, setting.use.hops, (p - 1) / p, reduce, messages)
