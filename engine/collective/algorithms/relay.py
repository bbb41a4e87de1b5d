"""Relay: an all-to-all in which bytes pass through other members on their way."""

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.algorithms.direct import Direct
from dimsweep.engine.collective.rounds import MemberRounds, Shift, Shifts, in_step
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.block import LinkUse, SubgroupBandwidth


class Relay(Algorithm):
    """All-to-all on a ring, which pays for every hop that its bytes travel.

    Full ring: in step j each NPU relays to both neighbours the pieces of s/p that have further to
    go than j - 1 hops (for even p the opposite NPU's piece is halved between the directions), so
    floor(p^2/4)/p * s bytes leave each NPU in floor(p/2) steps.  On a line the middle link carries
    floor(p^2/4) pieces each way, and the farthest piece crosses all p - 1 hops.
    """

    name = "relay"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Where the policy grants all of the bandwidth nothing has to be relayed."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return Direct().steps(kind, setting)
        p, use = setting.p, setting.use
        if use.wrap_hops != use.hops:
            return _on_a_line(p, use)
        pieces = _pieces_left(p)
        steps = tuple(Step(1, use.hops, 2 * left / p, messages=use.sharers) for left in pieces)
        return PhaseSteps(steps, use.share, 1.0, sum(step.bytes_fraction for step in steps))

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Round a circle members pass on; on a line the links do."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if not circle:
            return Direct().rounds(kind, p, circle)
        return in_step(relayed(p), p, reduces=False)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * 2 * (p // 2) if circle else Direct().n_messages(kind, p, circle)


def relayed(p: int) -> tuple[Shifts, ...]:
    """What every member of a circle sends, round by round."""
    weights = [1.0] * (p // 2)
    if p % 2 == 0:
        weights[-1] = 0.5  # the opposite member's piece goes half either way
    left = [sum(weights[j:]) / p for j in range(p // 2)]
    return tuple((Shift(1, piece, way=0), Shift(-1, piece, way=1)) for piece in left)


def _pieces_left(p: int) -> list[float]:
    """How many pieces go on in each direction, step by step."""
    reach = p // 2
    weights = [1.0] * reach
    if p % 2 == 0:
        weights[-1] = 0.5
    return [sum(weights[j:]) for j in range(reach)]


def _on_a_line(p: int, use: LinkUse) -> PhaseSteps:
    pieces = p * p // 4
    middle = Step(1, use.wrap_hops, pieces / p, messages=pieces * use.sharers)
    return PhaseSteps((middle,), use.share, 1.0, (p * p - 1) / (3 * p))
