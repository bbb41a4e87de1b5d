"""The self-check of a collective algorithm: its phases, its messages, and its use of links."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from dimsweep.engine.bound.cuts import cut_bound
from dimsweep.engine.collective.algorithms import (
    ALGORITHMS,
    AUTO,
    Algorithm,
    list_algorithms,
    list_all_to_alls,
)
from dimsweep.engine.collective.rounds import MemberRounds, RoundMessage, Strand, SwitchRounds
from dimsweep.engine.collective.steps import PhaseSteps, Setting
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind, Fidelity
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.testing.agreement import (
    PACKETS,
    ROUNDING,
    SHARD,
    Case,
    disagreements,
    groups_of,
    raise_findings,
    topology_of,
)
from dimsweep.engine.topology.blocks import BLOCKS, Block, Grid

# --- messages -------------------------------------------------------------------------------------


Members = Sequence[tuple[Strand, ...]]  # the strands of each member


def sent(members: Members) -> Iterator[tuple[int, int, RoundMessage]]:
    """Yield each message of a phase, as (sender, number of the sender's strand, message)."""
    for member, strands in enumerate(members):
        for number, strand in enumerate(strands):
            for round_ in strand:
                for message in round_.send:
                    yield member, number, message


class Walk:
    """Execution of a phase's rounds that tracks whose data has reached each member.

    ``known[member, strand]`` is the set of members that contributed to the strand's data. A message
    carries its sender's set, in the order of sending.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.known = {(i, k): {i} for i, strands in enumerate(members) for k in range(len(strands))}
        self.under_way: dict[tuple[int, int, int], list[frozenset[int]]] = defaultdict(list)
        self._next_round = dict.fromkeys(self.known, 0)
        while sum(self._advance(*place) for place in self.known):
            pass

    def _advance(self, member: int, number: int) -> bool:
        """Run a strand's next round if all its messages have arrived; return whether it ran."""
        strand, at = self.members[member][number], self._next_round[member, number]
        if at == len(strand):
            return False
        needed = Counter(strand[at].receive)
        if any(len(self.under_way[i, member, number]) < n for i, n in needed.items()):
            return False
        for sender in strand[at].receive:
            self.known[member, number] |= self.under_way[sender, member, number].pop(0)
        for message in strand[at].send:
            news = frozenset(self.known[member, number])
            self.under_way[member, message.peer, number].append(news)
        self._next_round[member, number] += 1
        return True

    @property
    def finished(self) -> bool:
        """True if all rounds of all strands have run."""
        return all(self._next_round[i, k] == len(self.members[i][k]) for i, k in self.known)


def faults_of_members(rounds: MemberRounds, kind: CollectiveKind) -> Iterator[str]:
    """Yield the faults (in words) of a phase of messages between members."""
    members, p = rounds.strands, len(rounds.strands)
    if any(i == message.peer for i, _, message in sent(members)):
        yield "a member sends to itself"
    walk = Walk(members)
    if not walk.finished:
        yield "some member waits for ever"
        return
    if any(walk.under_way.values()):
        yield "a message has no receiver"
    heard = [set[int]() for _ in members]
    for (member, _), known in walk.known.items():
        heard[member] |= known
    if any(len(known) < p for known in heard):
        yield "a member receives nothing of some other member"
    reduces = kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    reduced = sum(r.reduce for strands in members for strand in strands for r in strand)
    # To add up p members' bytes takes p - 1 additions of them, or more where several do the same.
    if reduces and reduced < (p - 1) * (1 - 1e-9):
        yield f"members reduce {reduced:g} times their own bytes, where {p - 1} are needed"
    if reduced and not reduces:
        yield f"members reduce {reduced:g} times their own bytes, and have nothing to reduce"


def faults_of_switches(rounds: SwitchRounds, p: int) -> Iterator[str]:
    """Yield the faults (in words) of a phase of ``p`` members through a switch."""
    reached = {(i, j) for each in rounds.rounds for i in each.sources for j in each.targets}
    if reached != {(i, j) for i in range(p) for j in range(p)}:
        yield "a member receives nothing of some other member"


# --- by links -------------------------------------------------------------------------------------


_KINDS = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)


def faults_on_links(
    algorithm: Algorithm, blocks: Iterable[Block], sizes: tuple[int, ...]
) -> Iterator[str]:
    """Yield the faults of an algorithm in all groups of dimensions of ``blocks`` and ``sizes``."""
    for block in blocks:
        for n in sizes:
            network = build_network(topology_of(block, n))
            for p, stride in groups_of(n):
                for kind in _KINDS:
                    case = Case(block, n, p, stride, kind, algorithm.name, AUTO)
                    ranks = range(0, p * stride, stride)
                    own = algorithm.adapt_to_members(network, ranks, 0)
                    yield from (
                        f"{case}: {each}" for each in _faults_on_link(own, network, ranks, kind)
                    )
                    yield from _times(case, network, ranks)


def _faults_on_link(
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
        yield f"members send {n_bytes:g} times their own bytes, where {(p - 1) * held} are needed"
    if len(messages) != (said := algorithm.n_messages(kind, p, circle=False)):
        yield f"{len(messages)} messages, and {said} by n_messages"


def _times(case: Case, network: Network, ranks: range) -> Iterator[str]:
    """Yield a fault if a fidelity beats the narrowest cut, or packets are far slower than flows."""
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


# --- algorithms -----------------------------------------------------------------------------------


_SIZES = (2, 3, 4, 5, 8)
_LARGEST = 17  # members: a power of two, its neighbours, and a number that no power of two divides


def check_algorithm(
    algorithm: Algorithm, blocks: Iterable[Block] = (), sizes: Iterable[int] = _SIZES
) -> None:
    """Check a registered algorithm against the definition of collectives and all fidelities.

    For each kind of collective that it supports, by 2 to 17 members: every message sent is
    received, no member waits for ever, every member receives from all others, all contributions are
    added up, no fewer bytes are sent than any algorithm needs (Chan et al., "Collective
    communication: theory, practice, and experience", 2007; switches that reduce may halve an
    all-reduce's), and ``steps``, ``rounds`` and ``n_messages`` agree. Then all groups of a
    dimension of each of ``sizes`` NPUs run it on each of ``blocks`` (default: all registered blocks
    on which it runs): phases, messages, flows and packets agree on the time. Members and sizes that
    the algorithm refuses are skipped.

    An algorithm that needs a network runs on the wires of each block: its routes exist, and neither
    messages nor flows are faster than the narrowest cut.

    Raises :class:`DimsweepError` with the violations.
    """
    raise_findings(_findings(algorithm, tuple(blocks), tuple(sizes)), f"algorithm {algorithm.name}")


def _findings(
    algorithm: Algorithm, blocks: tuple[Block, ...], sizes: tuple[int, ...]
) -> Iterator[str]:
    if ALGORITHMS.get(algorithm.name) != algorithm:
        yield "it is not registered"
        return
    if algorithm.by_network:
        grids = (block for block in BLOCKS.values() if not isinstance(block, Grid))
        yield from faults_on_links(algorithm, blocks or grids, sizes)
        return
    blocks = blocks or tuple(block for block in BLOCKS.values() if _runs_on(algorithm, block))
    if not blocks:
        yield "no registered block runs it; check it together with the plug-in of its block"
    done = False
    for block in blocks:
        for kind in kinds_of(algorithm, block):
            done = True
            yield from plan_faults(algorithm.adapt_to_block(block), block, kind)
            for case in cases(block, sizes, kind, algorithm):
                yield from disagreements(case)
    if blocks and not done:
        yield "there is no kind of collective that it can do"


def _runs_on(algorithm: Algorithm, block: Block) -> bool:
    return algorithm.name in (*list_algorithms(block), *list_all_to_alls(block))


def kinds_of(algorithm: Algorithm, block: Block) -> list[CollectiveKind]:
    """Return the kinds of collectives that ``algorithm`` runs on ``block``."""
    kinds = []
    if algorithm.name in list_algorithms(block):
        kinds = [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER]
        kinds += [CollectiveKind.ALL_REDUCE] if algorithm.fuses else []
    return kinds + [CollectiveKind.ALL_TO_ALL] * (algorithm.name in list_all_to_alls(block))


def cases(
    block: Block, sizes: Iterable[int], kind: CollectiveKind, algorithm: Algorithm
) -> Iterator[Case]:
    """Yield a test case for each group, in dimensions of ``sizes``, that runs the algorithm."""
    all_to_all = kind is CollectiveKind.ALL_TO_ALL
    names = (AUTO, algorithm.name) if all_to_all else (algorithm.name, AUTO)
    for n in sizes:
        for p, stride in groups_of(n):
            on, setting = algorithm.adapt_to_block(block), Setting(block, n, p, stride)
            if _steps(on, kind, setting) is not None and _rounds(on, kind, setting) is not None:
                yield Case(block, n, p, stride, kind, *names)


def plan_faults(algorithm: Algorithm, block: Block, kind: CollectiveKind) -> Iterator[str]:
    """Yield the faults of the steps and messages of one ``kind`` of collective.

    The groups tested fill a block, or a part of it.
    """
    contradicts = ""
    for setting in _settings(block):
        p, steps = setting.p, _steps(algorithm, kind, setting)
        if steps is None:
            continue
        rounds = _rounds(algorithm, kind, setting)
        if rounds is None:
            contradicts = contradicts or f"{kind} of {p}: steps() accepts it, rounds() refuses it"
        else:
            faults = _faults(algorithm, kind, setting, steps, rounds)
            yield from (f"{kind} of {p}: {fault}" for fault in faults)
    if contradicts:
        yield contradicts


def _settings(block: Block) -> Iterator[Setting]:
    if isinstance(block, Grid):  # which has one size
        yield from (Setting(block, block.size, *group) for group in groups_of(block.size))
        return
    for p in range(2, _LARGEST + 1):
        yield from (Setting(block, n, p, 1) for n in (p, 2 * p))


def _steps(algorithm: Algorithm, kind: CollectiveKind, setting: Setting) -> PhaseSteps | None:
    """Return the phase as steps, or None if the algorithm refuses the number of members."""
    try:
        return algorithm.steps(kind, setting)
    except DimsweepError:
        return None


def _rounds(
    algorithm: Algorithm, kind: CollectiveKind, setting: Setting
) -> MemberRounds | SwitchRounds | None:
    """Return the phase as messages, or None if the algorithm refuses the number of members."""
    try:
        return algorithm.rounds(kind, setting.p, _circle(setting))
    except DimsweepError:
        return None


def _circle(setting: Setting) -> bool:
    return setting.block.closes_ring(setting.n, setting.p, setting.stride)


def _faults(
    algorithm: Algorithm,
    kind: CollectiveKind,
    setting: Setting,
    steps: PhaseSteps,
    rounds: MemberRounds | SwitchRounds,
) -> Iterator[str]:
    p = setting.p
    if not isinstance(rounds, MemberRounds):
        yield from faults_of_switches(rounds, p)
        n_sent = sum(len(each.sources) + len(each.targets) for each in rounds.rounds)
    else:
        yield from faults_of_members(rounds, kind)
        messages = [message for _, _, message in sent(rounds.strands)]
        n_sent, n_bytes = len(messages), sum(message.fraction for message in messages) / p
        # Steps count the bytes that members relay, too, which need not be messages of theirs.
        relays = kind is CollectiveKind.ALL_TO_ALL and steps.bytes_sent > n_bytes
        if abs(steps.bytes_sent - n_bytes) > 1e-9 * p and not relays:
            said_bytes = f"{steps.bytes_sent:g} by steps"
            yield f"a member sends {n_bytes:g} times its own bytes, and {said_bytes}"
        if n_bytes < (least := _LEAST[kind](p)) * (1 - 1e-9):
            yield f"a member sends {n_bytes:g} times its own bytes, where {least:g} are needed"
    if n_sent != (said := algorithm.n_messages(kind, p, _circle(setting))):
        yield f"{n_sent} messages, and {said} by n_messages"


# Minimum mean bytes that a member sends, relative to the bytes that it enters with.
_LEAST = {
    CollectiveKind.REDUCE_SCATTER: lambda p: (p - 1) / p,
    CollectiveKind.ALL_GATHER: lambda p: p - 1,
    CollectiveKind.ALL_TO_ALL: lambda p: (p - 1) / p,
    CollectiveKind.ALL_REDUCE: lambda p: 2 * (p - 1) / p,
}
