"""The self-check of a collective algorithm that goes by the links of a network."""

from collections.abc import Iterable, Iterator

from dimsweep.engine.bound.cuts import cut_bound
from dimsweep.engine.collective.algorithms import AUTO, Algorithm
from dimsweep.engine.collective.rounds import MemberRounds
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.testing.agreement import PACKETS, ROUNDING, SHARD, Case, groups_of, topology_of
from dimsweep.engine.testing.messages import faults_of_members, sent
from dimsweep.engine.topology.block import Block

_KINDS = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)


def faults_on_links(
    algorithm: Algorithm, blocks: Iterable[Block], sizes: tuple[int, ...]
) -> Iterator[str]:
    """What is wrong with an algorithm among all groups on the wires of some blocks."""
    for block in blocks:
        for n in sizes:
            network = build_network(topology_of(block, n))
            for p, stride in groups_of(n):
                for kind in _KINDS:
                    case = Case(block, n, p, stride, kind, algorithm.name, AUTO)
                    ranks = range(0, p * stride, stride)
                    own = algorithm.among(network, ranks, 0)
                    yield from (f"{case}: {each}" for each in _faults(own, network, ranks, kind))
                    yield from _times(case, network, ranks)


def _faults(
    algorithm: Algorithm, network: Network, ranks: range, kind: CollectiveKind
) -> Iterator[str]:
    p = len(ranks)
    rounds = algorithm.rounds(kind, p, circle=False)
    if not isinstance(rounds, MemberRounds):
        yield "switches send messages, and not its members"
        return
    yield from faults_of_members(rounds, kind)
    router, messages = Router(network, Routing.SHORTEST), list(sent(rounds.strands))
    for member, _, message in messages:
        try:
            router.route(ranks[member], ranks[message.peer], message.way)
        except (DimsweepError, IndexError):
            yield f"nobody knows the way {message.way} from {member} to {message.peer}"
            return
    held = p if kind is CollectiveKind.ALL_GATHER else 1
    n_bytes = sum(message.fraction for _, _, message in messages)
    if n_bytes < (p - 1) * held * (1 - 1e-9):
        yield f"members send {n_bytes:g} times what one holds, where {(p - 1) * held} are needed"
    if len(messages) != (said := algorithm.n_messages(kind, p, circle=False)):
        yield f"{len(messages)} messages, and {said} by n_messages"


def _times(case: Case, network: Network, ranks: range) -> Iterator[str]:
    """Nobody is faster than the narrowest cut lets bytes through, nor packets much slower than
    flows."""
    least = cut_bound(network, ranks, case.kind).picoseconds(SHARD * case.p)
    by_flow = case.time(Fidelity.FLOW)
    for fidelity, time in (
        (Fidelity.FLOW, by_flow),
        (Fidelity.MESSAGE, case.time(Fidelity.MESSAGE)),
    ):
        if time < least * (1 - ROUNDING):
            yield f"{case}: {time} ps in fidelity {fidelity}, where a cut needs {least:.0f}"
    if case.p == case.n:
        ratio = case.time(Fidelity.PACKET) / by_flow
        if not PACKETS[0] <= ratio <= PACKETS[1]:
            yield f"{case}: packets take {ratio:.2f} times as long as flows"
