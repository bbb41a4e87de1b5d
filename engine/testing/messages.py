"""Whether the messages of a phase are complete: all of them come, and everybody hears of all."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dimsweep.engine.collective.rounds import MemberRounds, RoundMessage, Strand, SwitchRounds
from dimsweep.engine.kinds import CollectiveKind

Members = Sequence[tuple[Strand, ...]]  # the strands of each member


def sent(members: Members) -> Iterator[tuple[int, int, RoundMessage]]:
    """The sender, the number of its strand, and what it sends."""
    for member, strands in enumerate(members):
        for number, strand in enumerate(strands):
            for round_ in strand:
                for message in round_.send:
                    yield member, number, message


class Walk:
    """Works through a phase as soon as messages allow, on what members know.

    ``known[member, strand]`` is who has contributed to what the member holds.  A message carries
    all that its sender knows, and comes behind those that the sender sent before it.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.known = {(i, k): {i} for i, strands in enumerate(members) for k in range(len(strands))}
        self.under_way: dict[tuple[int, int, int], list[frozenset[int]]] = defaultdict(list)
        self._next_round = dict.fromkeys(self.known, 0)
        while sum(self._advance(*place) for place in self.known):
            pass

    def _advance(self, member: int, number: int) -> bool:
        """Go on with a strand by a round, if all that it waits for is there."""
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
        """Whether nobody waits any more."""
        return all(self._next_round[i, k] == len(self.members[i][k]) for i, k in self.known)


def faults_of_members(rounds: MemberRounds, kind: CollectiveKind) -> Iterator[str]:
    """What is wrong with messages between members."""
    members, p = rounds.strands, len(rounds.strands)
    if any(i == message.peer for i, _, message in sent(members)):
        yield "a member sends to itself"
    walk = Walk(members)
    if not walk.finished:
        yield "some member waits for ever"
        return
    if any(walk.under_way.values()):
        yield "somebody sends what nobody receives"
    heard = [set[int]() for _ in members]
    for (member, _), known in walk.known.items():
        heard[member] |= known
    if any(len(known) < p for known in heard):
        yield "some member does not hear of all others"
    reduces = kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    reduced = sum(r.reduce for strands in members for strand in strands for r in strand)
    # To add up p members' bytes takes p - 1 additions of them, or more where several do the same.
    if reduces and reduced < (p - 1) * (1 - 1e-9):
        yield f"members reduce {reduced:g} times what one holds, where {p - 1} are needed"
    if reduced and not reduces:
        yield f"members reduce {reduced:g} times what one holds, and have nothing to reduce"


def faults_of_switches(rounds: SwitchRounds, p: int) -> Iterator[str]:
    """What is wrong with messages by a switch."""
    told = {(i, j) for each in rounds.rounds for i in each.sources for j in each.targets}
    if told != {(i, j) for i in range(p) for j in range(p)}:
        yield "some member does not hear of all others"
