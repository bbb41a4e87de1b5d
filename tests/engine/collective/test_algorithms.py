"""Collective algorithms: what they move, in how many steps, over which links.

The second half simulates the single messages in plain Python, as witness that the schedules' steps,
hops and bytes are those of the algorithms they are named after.
"""

from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from dimsweep.engine import (
    Block,
    CollectiveKind,
    FullyConnected,
    Ring,
    SubgroupBandwidth,
    Switch,
)
from dimsweep.engine.collective.algorithms import ALGORITHMS as KNOWN
from dimsweep.engine.collective.algorithms import algorithm_for, algorithm_of_phase
from dimsweep.engine.collective.rounds import MemberRounds
from dimsweep.engine.collective.steps import PhaseSteps, Setting
from dimsweep.engine.topology import BLOCKS
from tests.support.programs import ALGORITHMS
from tests.support.refused import refused

FULL, PHYSICAL = SubgroupBandwidth.FULL, SubgroupBandwidth.PHYSICAL
REDUCE_SCATTER, ALL_GATHER = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
MEMBERS = range(2, 34)
FUSED = ["in_switch", "double_binary_tree", "rabenseifner"]


def list_settings(block: Block) -> list[Setting]:
    """Every p in 2..33 in several dimensions and at several strides, under both policies."""
    return [
        Setting(block, n, p, stride, policy)
        for p in MEMBERS
        for n in (p, 2 * p, 3 * p, 8 * p)
        for stride in (1, 2, 4, 8)
        if n % (p * stride) == 0
        for policy in (PHYSICAL, FULL)
    ]


CASES = [
    (algorithm, setting)
    for block, algorithms in ALGORITHMS.items()
    for algorithm in algorithms
    for setting in list_settings(block)
]


def alone(block: Block, p: int, n: int = 0, stride: int = 1) -> Setting:
    return Setting(block, n or p, p, stride)


def steps_of(kind: CollectiveKind, algorithm: str, setting: Setting) -> PhaseSteps:
    return algorithm_of_phase(kind, setting.block, algorithm).steps(kind, setting)


def total_bytes(plan: PhaseSteps) -> float:
    return sum(step.count * step.bytes_fraction for step in plan.steps)


def total_hops(plan: PhaseSteps) -> int:
    return sum(step.count * step.hops for step in plan.steps)


def n_steps(plan: PhaseSteps) -> int:
    return sum(step.count for step in plan.steps)


# --- bytes --------------------------------------------------------------------------------------


def test_a_reduce_scatter_leaves_each_member_its_share() -> None:
    for algorithm, setting in CASES:
        plan, p = steps_of(REDUCE_SCATTER, algorithm, setting), setting.p
        # A reducing switch takes everything up; all others send p - 1 of p shards.
        moved = 1 if algorithm == "in_switch" else (p - 1) / p
        assert plan.bytes_sent == pytest.approx(moved)
        assert plan.growth == pytest.approx(1 / p)
        assert total_bytes(plan) == pytest.approx(moved)


def test_an_all_gather_is_its_mirror() -> None:
    for algorithm, setting in CASES:
        plan, p = steps_of(ALL_GATHER, algorithm, setting), setting.p
        # A multicasting switch needs each shard once, and delivers all p of them to everyone.
        assert plan.bytes_sent == pytest.approx(1 if algorithm == "in_switch" else p - 1)
        assert plan.growth == pytest.approx(p)
        assert total_bytes(plan) == pytest.approx(p if algorithm == "in_switch" else p - 1)


def test_scatter_then_gather_restores_the_size() -> None:
    for algorithm, setting in CASES:
        scatter = steps_of(REDUCE_SCATTER, algorithm, setting)
        gather = steps_of(ALL_GATHER, algorithm, setting)
        assert scatter.growth * gather.growth == pytest.approx(1)


def test_only_what_arrives_is_reduced() -> None:
    for algorithm, setting in CASES:
        gather = steps_of(ALL_GATHER, algorithm, setting)
        assert all(step.reduce_fraction == 0 for step in gather.steps)
        scatter = steps_of(REDUCE_SCATTER, algorithm, setting)
        # The switch does it for the NPUs; everywhere else every received byte is added.
        assert all(
            step.reduce_fraction == (0 if algorithm == "in_switch" else step.bytes_fraction)
            for step in scatter.steps
        )


def test_an_all_to_all_keeps_the_size() -> None:
    for algorithm, setting in CASES:
        plan, p = steps_of(ALL_TO_ALL, algorithm, setting), setting.p
        assert plan.growth == 1
        if setting.block != Ring() or setting.policy is FULL:
            assert plan.bytes_sent == total_bytes(plan) == pytest.approx((p - 1) / p)


@pytest.mark.parametrize("p", MEMBERS)
def test_fused_all_reduces_on_a_switch(p: int) -> None:
    setting = alone(Switch(), p)
    in_switch, tree, rabenseifner = (steps_of(ALL_REDUCE, name, setting) for name in FUSED)
    assert (in_switch.bytes_sent, n_steps(in_switch), total_bytes(in_switch)) == (1, 1, 1)

    # Each of two trees carries half of the bytes over p - 1 edges, up and down.
    assert tree.bytes_sent == pytest.approx(2 * 2 * (p - 1) / 2 / p)

    q = 2 ** (p.bit_length() - 1)  # the largest power of two: the others hand all over and back
    assert rabenseifner.bytes_sent == pytest.approx((2 * (q - 1) + 2 * (p - q)) / p)
    extra = 0 if p == q else 2
    assert n_steps(rabenseifner) == 2 * (q.bit_length() - 1) + extra
    assert total_bytes(rabenseifner) == pytest.approx(2 * (q - 1) / q + extra)

    # What an NPU adds up: nothing, the halves of two children (of two NPUs, each has one), and
    # what it is sent to reduce.
    reduced = [sum(s.count * s.reduce_fraction for s in plan.steps) for plan in (in_switch, tree)]
    assert reduced == [0, 1 if p > 2 else 1 / 2]
    assert sum(s.count * s.reduce_fraction for s in rabenseifner.steps) == pytest.approx(
        (q - 1) / q + extra / 2
    )

    for plan in (in_switch, tree, rabenseifner):
        assert plan.growth == 1 and plan.share == 1
        assert all(step.hops == 2 for step in plan.steps)


def test_which_algorithms_fuse() -> None:
    names = {name for algorithms in ALGORITHMS.values() for name in algorithms}
    assert {name for name in names if KNOWN[name].fuses} == set(FUSED)


def test_trees_and_rabenseifner_halve_and_double_when_there_is_half_to_do() -> None:
    for p in MEMBERS:
        setting = alone(Switch(), p)
        for kind in (REDUCE_SCATTER, ALL_GATHER):
            usual = steps_of(kind, "halving_doubling", setting)
            assert steps_of(kind, "double_binary_tree", setting) == usual
            assert steps_of(kind, "rabenseifner", setting) == usual


# --- steps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_GATHER])
@pytest.mark.parametrize("p", MEMBERS)
def test_number_of_steps(kind: CollectiveKind, p: int) -> None:
    rounds = next(k for k in range(10) if 2**k >= p)  # ceil(log2 p)
    assert n_steps(steps_of(kind, "ring", alone(Ring(), p))) == p - 1
    assert n_steps(steps_of(kind, "ring", alone(Ring(), p, 2 * p))) == p - 1
    assert n_steps(steps_of(kind, "direct", alone(FullyConnected(), p))) == 1
    assert n_steps(steps_of(kind, "direct", alone(Switch(), p))) == 1
    assert n_steps(steps_of(kind, "halving_doubling", alone(Switch(), p))) == rounds


def test_halving_sends_the_largest_first_and_doubling_last() -> None:
    for p in MEMBERS:
        setting = alone(Switch(), p)
        halving = steps_of(REDUCE_SCATTER, "halving_doubling", setting).steps
        doubling = steps_of(ALL_GATHER, "halving_doubling", setting).steps
        assert [step.bytes_fraction for step in doubling] == pytest.approx(
            [step.bytes_fraction * p for step in reversed(halving)]
        )
        if p & (p - 1) == 0:
            assert [step.bytes_fraction for step in halving] == [
                1 / 2 ** (k + 1) for k in range(p.bit_length() - 1)
            ]


# --- links --------------------------------------------------------------------------------------


def test_shares_of_partial_groups() -> None:
    # FullyConnected: p - 1 of n - 1 links.
    assert FullyConnected().link_use(8, 4, 1).share == 3 / 7
    assert FullyConnected().link_use(8, 4, 2).share == 3 / 7
    assert FullyConnected().link_use(8, 8, 1).share == 1
    # Ring: everything; a line has one of two directions; k interleaved groups share the links.
    assert Ring().link_use(8, 8, 1).share == 1
    assert Ring().link_use(8, 4, 1).share == 1 / 2
    assert Ring().link_use(8, 4, 2).share == 1 / 2
    assert Ring().link_use(8, 2, 4).share == 1 / 4
    assert Ring().link_use(16, 4, 2).share == 1 / 4
    # Switch: the NPU's port.
    assert Switch().link_use(8, 2, 2).share == 1


@pytest.mark.parametrize("block", list(BLOCKS.values()))
def test_the_full_policy_gives_everything(block: Block) -> None:
    hops = 2 if block == Switch() else 1
    for setting in list_settings(block):
        if setting.policy is FULL:
            use = block.link_use_under(FULL, setting.n, setting.p, setting.stride)
            assert (use.share, use.hops, use.wrap_hops) == (1, hops, hops)


def test_no_share_exceeds_the_whole() -> None:
    for algorithm, setting in CASES:
        for kind in (REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL):
            assert 0 < steps_of(kind, algorithm, setting).share <= 1


def test_messages_between_two_npus() -> None:
    assert Ring().message_path_under(PHYSICAL, 8, 3) == (1 / 2, 3)  # one of two links
    assert Ring().message_path_under(PHYSICAL, 8, 6) == (1 / 2, 2)  # the shorter way round
    assert Ring().message_path_under(FULL, 8, 6) == (1, 2)
    assert FullyConnected().message_path_under(PHYSICAL, 8, 6) == (1 / 7, 1)
    assert FullyConnected().message_path_under(FULL, 8, 6) == (1, 1)
    assert Switch().message_path_under(PHYSICAL, 8, 6) == (1, 2)


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (Ring(), "ring"),
        (FullyConnected(), "direct"),
        (Switch(), "halving_doubling"),
    ],
)
def test_the_topology_aware_default(block: Block, name: str) -> None:
    assert algorithm_for(block, "auto") is KNOWN[name]


@pytest.mark.parametrize(
    ("block", "name"),
    [(Ring(), "direct"), (FullyConnected(), "in_switch"), (Switch(), "magic")],
)
def test_unsupported_algorithms_are_refused(block: Block, name: str) -> None:
    names = f"'{name}'", f"{block.name}: auto, {ALGORITHMS[block][0]}"
    with refused("collective.algorithms", "unsupported", *names):
        algorithm_for(block, name)


# --- witnesses: the single messages -------------------------------------------------------------


def ring_reduce_scatter(p: int, hop: int, wrap: int, latency: int, transfer: int) -> int:
    """When the last of p NPUs has everything, message by message.

    In step k each NPU sends to its successor what it got in step k - 1, as soon as that has come
    and its own message before has left.  The last NPU's successor is the first, ``wrap`` hops away.
    """
    sent = [0] * p  # when each NPU's last message had left
    came = [0] * p  # when each NPU's last message had come
    for _ in range(p - 1):
        start = [max(sent[i], came[i]) for i in range(p)]
        sent = [start[i] + transfer for i in range(p)]
        hops = [hop] * (p - 1) + [wrap]
        came = [sent[i - 1] + hops[i - 1] * latency for i in range(p)]
    return max(came)


@pytest.mark.parametrize("stride", [1, 2, 5])
@pytest.mark.parametrize("p", MEMBERS)
def test_ring_latency_message_by_message(p: int, stride: int) -> None:
    transfer, latency = 1000, 7
    for n, wrap in ((p * stride, stride), (3 * p * stride, (p - 1) * stride)):  # ring, line
        plan = steps_of(REDUCE_SCATTER, "ring", alone(Ring(), p, n, stride))
        expected = ring_reduce_scatter(p, stride, wrap, latency, transfer)
        assert total_hops(plan) * latency + n_steps(plan) * transfer == expected


def route(n: int, start: int, hops: int, direction: int) -> list[tuple[int, int]]:
    """The directed links (NPU, direction) from ``start`` on."""
    return [((start + direction * i) % n, direction) for i in range(hops)]


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_ring_links_carry_the_share_they_are_said_to(p: int, stride: int, parts: int) -> None:
    """One step of all groups of a dimension at once; the busiest link sets the pace."""
    n = p * stride * parts
    load: Counter[tuple[int, int]] = Counter()
    for corner in range(0, n, p * stride):
        for offset in range(stride):
            ring = [corner + offset + i * stride for i in range(p)]
            for npu in ring[:-1]:
                load.update(route(n, npu, stride, +1))
            if parts == 1:  # closed: the last goes on to the first
                load.update(route(n, ring[-1], stride, +1))
            else:  # a line: all the way back
                load.update(route(n, ring[-1], (p - 1) * stride, -1))
    # A closed ring runs half of its bytes in each direction; a line cannot.
    message = Fraction(1, 2 * p) if parts == 1 else Fraction(1, p)
    pace = max(load.values()) * message / Fraction(1, 2)  # a link has half of the bandwidth

    plan = steps_of(REDUCE_SCATTER, "ring", alone(Ring(), p, n, stride))
    assert plan.steps[0].bytes_fraction / plan.share == pytest.approx(float(pace))


def test_fully_connected_links_carry_one_shard_each() -> None:
    for p, n in ((2, 8), (4, 8), (8, 8), (5, 15)):
        plan = steps_of(REDUCE_SCATTER, "direct", alone(FullyConnected(), p, n))
        pace = Fraction(1, p) / Fraction(1, n - 1)  # 1/p of the bytes over 1/(n - 1) of b
        assert total_bytes(plan) / plan.share == pytest.approx(float(pace))


def gather_shards(p: int) -> tuple[list[set[int]], list[int]]:
    """Bruck's all-gather: what each rank holds in the end, and the shards sent in each step."""
    held = [[rank] for rank in range(p)]  # in ring order from the own shard on
    sizes, distance = [], 1
    while distance < p:
        count = min(distance, p - distance)
        held = [held[i] + held[(i + distance) % p][:count] for i in range(p)]
        sizes.append(count)
        distance *= 2
    return [set(shards) for shards in held], sizes


def reduce_shards(p: int, sizes: list[int]) -> list[Counter[int]]:
    """The same messages backwards: whose contributions each rank's own shard holds in the end."""
    # partial[i][s]: how often each rank's contribution is in what rank i holds of shard s.
    partial = [[Counter({i: 1}) for _ in range(p)] for i in range(p)]
    for k, count in reversed(list(enumerate(sizes))):
        sent = defaultdict(list)
        for i in range(p):
            peer = (i + 2**k) % p
            for shard in ((peer + j) % p for j in range(count)):
                sent[peer].append((shard, partial[i][shard]))
                partial[i][shard] = Counter()
        for peer, messages in sent.items():
            for shard, contributions in messages:
                partial[peer][shard] = partial[peer][shard] + contributions
    return [partial[i][i] for i in range(p)]


@pytest.mark.parametrize("p", MEMBERS)
def test_doubling_gathers_every_shard(p: int) -> None:
    held, sizes = gather_shards(p)
    assert all(shards == set(range(p)) for shards in held)
    plan = steps_of(ALL_GATHER, "halving_doubling", alone(Switch(), p))
    assert [step.bytes_fraction for step in plan.steps] == pytest.approx(sizes)


@pytest.mark.parametrize("p", MEMBERS)
def test_halving_sums_every_contribution_once(p: int) -> None:
    _, sizes = gather_shards(p)
    for contributions in reduce_shards(p, sizes):
        assert contributions == Counter(dict.fromkeys(range(p), 1))
    plan = steps_of(REDUCE_SCATTER, "halving_doubling", alone(Switch(), p))
    assert [step.bytes_fraction * p for step in plan.steps] == pytest.approx(sizes[::-1])


def relayed(p: int) -> list[Counter[tuple[int, int]]]:
    """All-to-all on a closed ring: pieces (of 1/p) on each directed link, step by step.

    Every piece goes the shorter way, one hop a step; the opposite NPU's goes half each way.
    """
    steps: list[Counter[tuple[int, int]]] = [Counter() for _ in range(p // 2)]
    for source in range(p):
        for hops in range(1, p // 2 + 1):
            piece = Fraction(1, 2) if 2 * hops == p else Fraction(1)
            for direction in (+1, -1):
                for step, link in enumerate(route(p, source, hops, direction)):
                    steps[step][link] += piece
    return steps


@pytest.mark.parametrize("p", MEMBERS)
def test_all_to_all_on_a_ring_piece_by_piece(p: int) -> None:
    plan = steps_of(ALL_TO_ALL, "ring", alone(Ring(), p))
    steps = relayed(p)
    assert n_steps(plan) == len(steps) == p // 2
    for step, load in zip(plan.steps, steps, strict=True):
        assert step.count == step.hops == 1
        assert len(set(load.values())) == 1  # every link is as busy
        # A link carries its pieces at half of the bandwidth.
        pace = max(load.values()) * Fraction(1, p) / Fraction(1, 2)
        assert step.bytes_fraction / plan.share == pytest.approx(float(pace))
    sent = sum(sum(load.values()) for load in steps) * Fraction(1, p) / p
    assert plan.bytes_sent == pytest.approx(float(sent))
    # All pieces arrive: the p - 1 others' shares travel their distances.
    distances = sum(min(d, p - d) for d in range(1, p))
    assert plan.bytes_sent == pytest.approx(distances / p)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("p", [2, 3, 4, 5, 8, 9])
def test_all_to_all_on_lines_piece_by_piece(p: int, stride: int) -> None:
    n = 2 * p * stride
    load: Counter[tuple[int, int]] = Counter()
    sent = 0
    for offset in range(stride):  # the interleaved groups of one corner
        line = [offset + i * stride for i in range(p)]
        for source in line:
            for target in line:
                hops, direction = abs(target - source), (1 if target > source else -1)
                load.update(route(n, source, hops, direction))
                sent += hops // stride
    plan = steps_of(ALL_TO_ALL, "ring", alone(Ring(), p, n, stride))
    pace = max(load.values()) * Fraction(1, p) / Fraction(1, 2)
    assert total_bytes(plan) / plan.share == pytest.approx(float(pace))
    assert total_hops(plan) == (p - 1) * stride  # the farthest piece
    # Averaged over members; a piece counts at every member that sends it on.
    assert plan.bytes_sent == pytest.approx(sent / (stride * p) / p)


def depth_of_two_trees(p: int) -> int:
    """Edges from the root to the deepest leaf: a root over a complete binary tree of p - 1."""
    depth = {1: 1}
    for node in range(2, p):
        depth[node] = depth[node // 2] + 1
    return max(depth.values())


@pytest.mark.parametrize("p", MEMBERS)
def test_two_trees_take_their_depth_up_and_down(p: int) -> None:
    plan = steps_of(ALL_REDUCE, "double_binary_tree", alone(Switch(), p))
    assert n_steps(plan) == 2 * depth_of_two_trees(p)


@pytest.mark.parametrize("p", MEMBERS)
def test_two_trees_keep_the_busiest_member_busy_once(p: int) -> None:
    """Whatever their depth: the messages of the other description, member by member."""
    rounds = KNOWN["double_binary_tree"].rounds(ALL_REDUCE, p, circle=False)
    assert isinstance(rounds, MemberRounds)
    out, into, reduced = Counter[int](), Counter[int](), Counter[int]()
    for member, strands in enumerate(rounds.strands):
        for round_ in (each for strand in strands for each in strand):
            reduced[member] += round_.reduce
            for peer, fraction, _ in round_.send:
                out[member] += fraction
                into[peer] += fraction
    plan = steps_of(ALL_REDUCE, "double_binary_tree", alone(Switch(), p))
    assert total_bytes(plan) == max(out.values()) == max(into.values()) == min(p, 4) / 2
    assert sum(step.reduce_fraction for step in plan.steps) == max(reduced.values())
    assert plan.bytes_sent == pytest.approx(sum(out.values()) / p)


def test_strides_of_these_cases_cover_every_way_to_divide() -> None:
    """The generated settings are not vacuous: closed rings, lines and interleaved ones occur."""
    rings = list_settings(Ring())
    assert {s.p for s in rings} == set(MEMBERS)
    assert any(s.stride > 1 and s.p * s.stride == s.n for s in rings)
    assert any(s.stride > 1 and s.p * s.stride < s.n for s in rings)
