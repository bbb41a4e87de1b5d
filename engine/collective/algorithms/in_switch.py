"""In-switch: the switch reduces what comes up, and multicasts what goes down."""

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.rounds import SwitchRound, SwitchRounds
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind


class InSwitch(Algorithm):
    """Reduction and multicast by the switch itself, cut through and full duplex.

    One rule for all kinds: what a member enters a phase with goes up once, and what it leaves with
    comes down once, both at the same time.  So a reduce-scatter takes as long as what goes up, and
    an all-gather as long as what comes down, a member's own shard included: the switch multicasts
    to the whole group.  A fused all-reduce sends half of what any other algorithm must.
    """

    name = "in_switch"
    fuses = True

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        p, use = setting.p, setting.use
        growth = self._growth(kind, p)
        # The shards of an all-gather come down one after another.
        pieces = p if kind is CollectiveKind.ALL_GATHER else 1
        through = Step(1, use.hops, max(1.0, growth), messages=pieces)
        return PhaseSteps((through,), use.share, growth, 1.0)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> SwitchRounds:
        members, growth = tuple(range(p)), self._growth(kind, p)
        if kind is CollectiveKind.ALL_GATHER:
            return SwitchRounds(tuple(SwitchRound((i,), 1.0, members, 1.0) for i in members))
        return SwitchRounds((SwitchRound(members, 1.0, members, growth),))

    def _growth(self, kind: CollectiveKind, p: int) -> float:
        """The bytes that come down to a member, of those that it sends up."""
        if kind is CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        growth = {CollectiveKind.REDUCE_SCATTER: 1 / p, CollectiveKind.ALL_GATHER: float(p)}
        return growth.get(kind, 1.0)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * (p + 1) if kind is CollectiveKind.ALL_GATHER else 2 * p
