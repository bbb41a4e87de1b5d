"""Collectives message by message, beyond what :func:`check_algorithm` holds them to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from dimsweep.engine import Block, CollectiveKind, Mesh2D, Ring, Switch, Torus2D
from dimsweep.engine.collective.algorithms import ALGORITHMS as KNOWN
from dimsweep.engine.collective.algorithms import AUTO, Algorithm, AllReduceOnly, algorithm_of_phase
from dimsweep.engine.collective.rounds import MemberRounds, Strand, SwitchRounds
from dimsweep.engine.collective.steps import Setting
from dimsweep.engine.testing.algorithm import Walk, sent
from dimsweep.engine.topology import Grid
from tests.support.graphs import star
from tests.support.programs import ALGORITHMS
from tests.support.refused import refused

HALVES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
ALL_TO_ALLS = ("pairwise", "bruck")  # that are nothing else
LARGEST = 17  # a power of two, its neighbours, and what no power of two divides


class Plan(NamedTuple):
    """What a phase consists of; ``closed``: in a circle."""

    kind: CollectiveKind
    algorithm: str
    block: Block
    closed: bool

    @property
    def chosen(self) -> Algorithm:
        if self.algorithm in ALL_TO_ALLS:
            return algorithm_of_phase(self.kind, self.block, AUTO, self.algorithm)
        return algorithm_of_phase(self.kind, self.block, self.algorithm)

    def members(self, p: int) -> tuple[tuple[Strand, ...], ...]:
        rounds = self.chosen.rounds(self.kind, p, self.closed)
        assert isinstance(rounds, MemberRounds)
        assert len(rounds.strands) == p
        return rounds.strands

    @property
    def name(self) -> str:
        shape = "-closed" if self.closed else ""
        return f"{self.block.name}{shape}-{self.algorithm}-{self.kind}"


def all_plans() -> Iterator[Plan]:
    """All that are made of messages between members."""
    for block, algorithms in ALGORITHMS.items():
        for algorithm in algorithms:
            for kind in CollectiveKind:
                if algorithm == "in_switch" and kind is not CollectiveKind.ALL_TO_ALL:
                    continue
                if kind is CollectiveKind.ALL_REDUCE and not KNOWN[algorithm].fuses:
                    continue  # lowered to a reduce-scatter and an all-gather
                for closed in (False, True) if block == Ring() else (False,):
                    yield Plan(kind, algorithm, block, closed)
    for algorithm in ALL_TO_ALLS:
        yield Plan(CollectiveKind.ALL_TO_ALL, algorithm, Switch(), False)


PLANS = list(all_plans())
EVERY_PLAN = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)


@EVERY_PLAN
def test_everyone_hears_of_everyone(plan: Plan) -> None:
    for p in range(2, LARGEST + 1):
        walk = Walk(plan.members(p))
        assert walk.finished, "some member waits for ever"
        assert not any(walk.under_way.values()), "a message that nobody takes"
        first = 1 if is_streamed(plan) else 0  # the bytes of streams wait for nothing; ends do
        for (_, strand), known in walk.known.items():
            assert strand < first or known == set(range(p))


def is_streamed(plan: Plan) -> bool:
    """Whether strand 0 has the bytes, and the others the ends of their streams."""
    return plan.algorithm == "double_binary_tree" and plan.kind is CollectiveKind.ALL_REDUCE


@pytest.mark.parametrize("plan", [*filter(is_streamed, PLANS)], ids=lambda plan: plan.name)
def test_a_streams_end_goes_the_way_of_its_bytes(plan: Plan) -> None:
    for p in range(2, LARGEST + 1):
        ways: dict[bool, Counter[tuple[int, int]]] = {False: Counter(), True: Counter()}
        for i, strand, message in sent(plan.members(p)):
            assert message.fraction == (0.0 if strand else 0.5)
            ways[strand > 0][i, message.peer] += 1
        assert ways[False] == ways[True]


@EVERY_PLAN
def test_every_contribution_is_added_once(plan: Plan) -> None:
    # To add up p members' bytes takes p - 1 additions, wherever they are done.
    reduces = plan.kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    for p in range(2, LARGEST + 1):
        rounds = [r for member in plan.members(p) for strand in member for r in strand]
        reduced = sum(round_.reduce for round_ in rounds)
        assert reduced == pytest.approx(p - 1 if reduces else 0, rel=1e-12)


# --- contents: which shards are where ------------------------------------------------------------


def gathers() -> list[Plan]:
    return [plan for plan in PLANS if plan.kind is CollectiveKind.ALL_GATHER]


@pytest.mark.parametrize("plan", gathers(), ids=lambda plan: plan.name)
def test_a_gather_sends_what_the_other_lacks(plan: Plan) -> None:
    """Shards come in halves, which a closed ring sends either way; a message is exactly as large as
    what its sender holds and its receiver lacks, so nothing is sent twice or out of nothing."""
    for p in range(2, LARGEST + 1):
        held = [{(i, half) for half in (0, 1)} for i in range(p)]
        members = [member[0] for member in plan.members(p)]
        for number in range(len(members[0])):
            before = [frozenset(shards) for shards in held]
            for i, strand in enumerate(members):
                for peer, fraction, way in strand[number].send:
                    news = before[i] - before[peer]
                    if plan.closed:
                        news = {shard for shard in news if shard[1] == way}
                    if plan.algorithm == "direct":
                        news = {shard for shard in news if shard[0] == i}
                    assert len(news) / 2 == pytest.approx(fraction)
                    held[peer] |= news
        assert all(len(shards) == 2 * p for shards in held)


@pytest.mark.parametrize("plan", gathers(), ids=lambda plan: plan.name)
def test_a_scatter_is_a_gather_backwards(plan: Plan) -> None:
    """The same messages the other way in the opposite order: what a gather copies, it adds up."""
    scatter = plan._replace(kind=CollectiveKind.REDUCE_SCATTER)
    for p in range(2, LARGEST + 1):
        there = by_round(scatter.members(p))
        back = by_round(plan.members(p))
        mirrored = [
            Counter({(b, a, round(f / p, 9)): n for (a, b, f), n in step.items()}) for step in back
        ]
        assert there == mirrored[::-1]


def by_round(members: Sequence[tuple[Strand, ...]]) -> list[Counter[tuple[int, int, float]]]:
    """Sender, receiver and fraction of every message, round by round."""
    (count,) = {len(member[0]) for member in members}
    return [
        Counter(
            (i, message.peer, round(message.fraction, 9))
            for i, member in enumerate(members)
            for message in member[0][number].send
        )
        for number in range(count - 1)  # in the last round members only receive
    ]


@pytest.mark.parametrize("p", range(2, LARGEST + 1))
def test_a_ring_relays_every_piece_to_where_it_goes(p: int) -> None:
    """All-to-all round a closed ring: in each round, all that has not arrived goes one hop on."""
    plan = Plan(CollectiveKind.ALL_TO_ALL, "ring", Ring(), True)
    steps = [member[0] for member in plan.members(p)]
    arrived: Counter[tuple[int, int]] = Counter()
    for way, direction in enumerate((1, -1)):
        held = [pieces(i, p, direction) for i in range(p)]
        for number in range(len(steps[0]) - 1):
            sends = [m for i in range(p) for m in steps[i][number].send if m.way == way]
            assert [m.peer for m in sends] == [(i + direction) % p for i in range(p)]
            sizes = [sum(cargo.values()) for cargo in held]
            assert [m.fraction for m in sends] == pytest.approx(sizes)
            held = [held[(i - direction) % p] for i in range(p)]
            for i, cargo in enumerate(held):
                for source, target in [pair for pair in cargo if pair[1] == i]:
                    arrived[source, target] += cargo.pop((source, target))
        assert not any(held)
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    assert arrived == pytest.approx(dict.fromkeys(pairs, 1 / p))


def pieces(source: int, p: int, direction: int) -> dict[tuple[int, int], float]:
    """What goes this way round: pieces of 1/p to all up to half round, half of the opposite one."""
    cargo = {}
    for hops in range(1, p // 2 + 1):
        share = 0.5 if 2 * hops == p else 1.0
        cargo[source, (source + direction * hops) % p] = share / p
    return cargo


@pytest.mark.parametrize("algorithm", ["direct", *ALL_TO_ALLS])
def test_an_all_to_all_brings_every_shard_to_where_it_goes(algorithm: str) -> None:
    """A message has room for exactly those of its sender's shards that go on to its peer."""
    for p in range(2, LARGEST + 1):
        rounds = by_round(Plan(CollectiveKind.ALL_TO_ALL, algorithm, Switch(), False).members(p))
        held = [{(i, j) for j in range(p)} for i in range(p)]
        for number, round_ in enumerate(rounds):
            before = [set(shards) for shards in held]
            for i, peer, fraction in round_:
                taken = {
                    (a, b)
                    for a, b in before[i]
                    if ((b - a) % p >> number & 1 if algorithm == "bruck" else b == peer)
                }
                assert len(taken) / p == pytest.approx(fraction)
                held[i] -= taken
                held[peer] |= taken
        assert held == [{(i, j) for i in range(p)} for j in range(p)]


def test_the_two_trees_share_the_work() -> None:
    # Nobody is an inner node of both trees: with children in one, a member is a leaf of the other.
    plan = Plan(CollectiveKind.ALL_REDUCE, "double_binary_tree", Switch(), False)
    for p in range(3, LARGEST + 1):
        for _, *ends in plan.members(p):
            assert sum(len(strand[0].receive) > 1 for strand in ends) < 2


@pytest.mark.parametrize(
    "algorithm", [name for name, a in KNOWN.items() if isinstance(a, AllReduceOnly)]
)
@pytest.mark.parametrize("kind", HALVES)
def test_what_is_for_all_reduces_only_falls_back(algorithm: str, kind: CollectiveKind) -> None:
    for p in range(2, LARGEST + 1):
        plan = Plan(kind, algorithm, Switch(), False)
        assert plan.members(p) == plan._replace(algorithm="halving_doubling").members(p)


@pytest.mark.parametrize("p", range(2, LARGEST + 1))
def test_the_switch_hears_and_tells_everyone(p: int) -> None:
    kinds = set(CollectiveKind) - {CollectiveKind.ALL_TO_ALL}
    for kind in kinds:
        rounds = KNOWN["in_switch"].rounds(kind, p, circle=False)
        assert isinstance(rounds, SwitchRounds)
        told = Counter((i, j) for r in rounds.rounds for i in r.sources for j in r.targets)
        assert told == Counter((i, j) for i in range(p) for j in range(p))
        steps = KNOWN["in_switch"].steps(kind, Setting(Switch(), p, p, 1))
        up = Counter[int]()
        for r in rounds.rounds:
            up.update(dict.fromkeys(r.sources, r.up))
        assert set(up.values()) == {steps.bytes_sent}
        n_messages = sum(len(r.sources) + len(r.targets) for r in rounds.rounds)
        assert n_messages == KNOWN["in_switch"].n_messages(kind, p, circle=False)


def test_an_algorithm_refuses_what_it_cannot_do() -> None:
    network = star([1e9] * 4)
    for known in KNOWN.values():
        algorithm = known.adapt_to_block(Mesh2D(2, 2)).adapt_to_members(network, range(4), 0)
        for kind in CollectiveKind:
            for describe in (
                lambda a=algorithm, k=kind: a.steps(k, Setting(Switch(), 4, 4, 1)),
                lambda a=algorithm, k=kind: a.rounds(k, 4, circle=False),
            ):
                if can(algorithm, kind):
                    describe()
                else:
                    with refused("collective.algorithms", "unsupported"):
                        describe()


def can(algorithm: Algorithm, kind: CollectiveKind) -> bool:
    if kind is CollectiveKind.ALL_TO_ALL:
        return algorithm.name in ("direct", "relay", "xy_direct", *ALL_TO_ALLS)
    if kind is CollectiveKind.ALL_REDUCE:
        return algorithm.fuses
    return algorithm.name not in ("relay", "xy_direct", *ALL_TO_ALLS)


@pytest.mark.parametrize("grid", [Mesh2D(3, 2), Torus2D(3, 4), Torus2D(2, 5)], ids=repr)
@pytest.mark.parametrize("kind", [*HALVES, CollectiveKind.ALL_TO_ALL])
def test_on_a_whole_grid_everyone_hears_of_everyone(grid: Grid, kind: CollectiveKind) -> None:
    """And sends as many bytes and messages as the other description says."""
    algorithm, p = algorithm_of_phase(kind, grid, AUTO), grid.size
    rounds = algorithm.rounds(kind, p, circle=False)
    assert isinstance(rounds, MemberRounds)
    walk = Walk(rounds.strands)
    assert walk.finished and not any(walk.under_way.values())
    assert all(known == set(range(p)) for known in walk.known.values())
    messages = list(sent(rounds.strands))
    assert algorithm.n_messages(kind, p, circle=False) == len(messages)
    steps = algorithm.steps(kind, Setting(grid, p, p, 1))
    total = sum(message.fraction for _, _, message in messages)
    assert total == pytest.approx(p * steps.bytes_sent)
