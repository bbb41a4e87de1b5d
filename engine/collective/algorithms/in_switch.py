"""In-switch: the switch reduces what comes up, and multicasts what goes down."""

from engine.collective.algorithms.algorithm import Algorithm
from engine.collective.rounds import SwitchRound, SwitchRounds
from engine.collective.steps import PhaseSteps, Setting, Step
from engine.kinds import CollectiveKind


class InSwitch(Algorithm):
    """Reduction and multicast by the switch itself, cut through and full duplex."""

    name = "in_switch"
    fuses = True

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        p, use = setting.p, setting.use
        if kind is CollectiveKind.ALL_GATHER:
            # An NPU sends its own shard once and receives the others'.
            everything = Step(1, use.hops, p - 1.0, messages=p - 1)
            return PhaseSteps((everything,), use.share, float(p), 1.0)
        # Everything goes up while a member's shard, or the whole result, comes down.
        growth = {CollectiveKind.REDUCE_SCATTER: 1 / p, CollectiveKind.ALL_REDUCE: 1.0}
        if kind not in growth:
            raise self.cannot(kind)
        return PhaseSteps((Step(1, use.hops, 1.0),), use.share, growth[kind], 1.0)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> SwitchRounds:
        members = tuple(range(p))
        if kind is CollectiveKind.ALL_GATHER:
            others = [tuple(other for other in members if other != i) for i in members]
            return SwitchRounds(tuple(SwitchRound((i,), 1.0, others[i], 1.0) for i in members))
        if kind is CollectiveKind.REDUCE_SCATTER:
            return SwitchRounds((SwitchRound(members, 1.0, members, 1 / p),))
        if kind is CollectiveKind.ALL_REDUCE:
            return SwitchRounds((SwitchRound(members, 1.0, members, 1.0),))
        raise self.cannot(kind)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * p if kind is CollectiveKind.ALL_GATHER else 2 * p
