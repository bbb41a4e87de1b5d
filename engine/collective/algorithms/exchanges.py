"""All-to-all algorithms: each member has bytes for each other member, sent directly or relayed."""

from dimsweep.engine.collective.algorithms.algorithm import Algorithm, AllToAllOnly, ScatterGather
from dimsweep.engine.collective.rounds import MemberRounds, Shift, Shifts, in_step
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.blocks import LinkUse, SubgroupBandwidth

# --- direct ---------------------------------------------------------------------------------------


class Direct(ScatterGather):
    """Algorithm in which each member sends a message to each other member.

    The messages run concurrently on separate links, or one after another through a port.  This is
    also the all-to-all wherever no member relays.
    """

    name = "direct"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a phase of any kind as steps for the phase kernel."""
        if kind is CollectiveKind.ALL_TO_ALL:
            p = setting.p
            return PhaseSteps((_exchange(setting, 0.0),), setting.use.share, 1.0, (p - 1) / p)
        return super().steps(kind, setting)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return a phase of any kind among ``p`` members as messages."""
        if kind is CollectiveKind.ALL_TO_ALL:
            return in_step(self.scatter_rounds(p, circle), p, reduces=False)
        return super().rounds(kind, p, circle)

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the reduce-scatter as steps for the phase kernel."""
        return (_exchange(setting, (setting.p - 1) / setting.p),)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        """Return the reduce-scatter's messages, round by round.

        Each member starts with another peer, so that no port receives from two members at a time.
        """
        return (tuple(Shift(j, 1 / p) for j in range(1, p)),)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        return p * (p - 1)


def _exchange(setting: Setting, reduce: float) -> Step:
    p = setting.p
    messages = 1 if setting.block.sends_concurrently else p - 1
    return Step(1, setting.use.hops, (p - 1) / p, reduce, messages)


# --- relay ----------------------------------------------------------------------------------------


class Relay(Algorithm):
    """All-to-all on a ring, in which bytes use every link of their route.

    Full ring: in step j each NPU relays to both neighbours the pieces of s/p that have further to
    go than j - 1 hops (for even p the opposite NPU's piece is halved between the directions), so
    floor(p^2/4)/p * s bytes leave each NPU in floor(p/2) steps. On a line the middle link carries
    floor(p^2/4) pieces each way, and the farthest piece crosses all p - 1 hops.
    """

    name = "relay"

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return the all-to-all as steps: direct ones if the policy grants the whole bandwidth."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if setting.policy is SubgroupBandwidth.FULL:
            return Direct().steps(kind, setting)
        p, use = setting.p, setting.use
        if use.wrap_hops != use.hops:
            return _on_a_line(p, use)
        reach = p // 2  # the hops of the farthest pieces
        weights = [1.0] * reach
        if p % 2 == 0:
            weights[-1] = 0.5
        pieces = [sum(weights[j:]) for j in range(reach)]
        steps = tuple(Step(1, use.hops, 2 * left / p, messages=use.sharers) for left in pieces)
        return PhaseSteps(steps, use.share, 1.0, sum(step.bytes_fraction for step in steps))

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return the all-to-all as messages: on a circle members relay, on a line links do."""
        if kind is not CollectiveKind.ALL_TO_ALL:
            raise self.cannot(kind)
        if not circle:
            return Direct().rounds(kind, p, circle)
        return in_step(relayed(p), p, reduces=False)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of an all-to-all among ``p`` members."""
        return p * 2 * (p // 2) if circle else Direct().n_messages(kind, p, circle)


def relayed(p: int) -> tuple[Shifts, ...]:
    """Return the messages that each of ``p`` members on a circle sends or relays, by round."""
    weights = [1.0] * (p // 2)
    if p % 2 == 0:
        weights[-1] = 0.5  # the opposite member's piece goes half either way
    left = [sum(weights[j:]) / p for j in range(p // 2)]
    return tuple((Shift(1, piece, way=0), Shift(-1, piece, way=1)) for piece in left)


def _on_a_line(p: int, use: LinkUse) -> PhaseSteps:
    pieces = p * p // 4
    middle = Step(1, use.wrap_hops, pieces / p, messages=pieces * use.sharers)
    return PhaseSteps((middle,), use.share, 1.0, (p * p - 1) / (3 * p))


# --- pairwise -------------------------------------------------------------------------------------


class Pairwise(AllToAllOnly):
    """Exchange shards pairwise in p - 1 steps (Thakur, Rabenseifner and Gropp, 2005).

    In step j each member sends its shard to the member j places after it, and receives from the
    member j places before it. No two members send to one.
    """

    name = "pairwise"
    all_to_all_on = ("Switch",)

    def exchange_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the all-to-all as steps for the phase kernel."""
        return (Step(setting.p - 1, setting.use.hops, 1 / setting.p),)

    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        """Return the all-to-all's messages among ``p`` members, equal for all, round by round."""
        return tuple((Shift(j, 1 / p),) for j in range(1, p))

    def n_rounds(self, p: int) -> int:
        """Return the number of rounds among ``p`` members: p - 1."""
        return p - 1


# --- Bruck ----------------------------------------------------------------------------------------


class Bruck(AllToAllOnly):
    """All-to-all in log2 p steps, rounded up, of half of the bytes each (Bruck et al., 1997).

    In step k each member sends to the member 2^k places after it all shards whose distance has bit
    k.
    """

    name = "bruck"
    all_to_all_on = ("Switch",)

    def exchange_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the all-to-all as steps for the phase kernel."""
        return tuple(Step(1, setting.use.hops, share) for share in _shares(setting.p))

    def exchange_rounds(self, p: int) -> tuple[Shifts, ...]:
        """Return the all-to-all's messages among ``p`` members, equal for all, round by round."""
        return tuple((Shift(1 << k, share),) for k, share in enumerate(_shares(p)))

    def n_rounds(self, p: int) -> int:
        """Return the number of rounds among ``p`` members: log2 p, rounded up."""
        return (p - 1).bit_length()


def _shares(p: int) -> list[float]:
    """Return the fraction of a member's bytes that it sends in each of Bruck's steps.

    Step k sends the shards of all distances from 1 to p - 1 that contain bit k.
    """
    bits = range((p - 1).bit_length())
    return [sum(way >> k & 1 for way in range(1, p)) / p for k in bits]
