"""The self-checks pass for all that is registered, and find what is wrong elsewhere."""

from collections.abc import Iterator
from typing import Any

import pytest

from dimsweep.engine import (
    Block,
    CollectiveKind,
    DimsweepError,
    FullyConnected,
    Ring,
    SubgroupBandwidth,
    Switch,
)
from dimsweep.engine.collective.algorithms import (
    ALGORITHMS,
    AllReduceOnly,
    AllToAllOnly,
    ScatterGather,
    list_algorithms,
    list_all_to_alls,
)
from dimsweep.engine.collective.rounds import MemberRounds, Shift, in_step
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step, measured_steps
from dimsweep.engine.kinds import ORDERS
from dimsweep.engine.testing import check_algorithm, check_block, check_order
from dimsweep.engine.testing.agreement import groups_of
from dimsweep.engine.topology import BLOCKS, GRIDS, LinkUse, MessagePath, Pair

SIDES = {"Mesh2D": [(2, 2), (3, 2), (4, 2), (3, 3)], "Torus2D": [(3, 2), (2, 4), (3, 3), (4, 4)]}
ALL_GRIDS = [grid(*sides) for name, grid in GRIDS.items() for sides in SIDES[name]]
OWN = [each for each in ALGORITHMS.values() if type(each).__module__.startswith("dimsweep.engine.")]


@pytest.mark.long
@pytest.mark.parametrize("block", BLOCKS.values(), ids=lambda block: block.name)
def test_every_block_is_what_it_says(block: Block) -> None:
    check_block(block, (2, 3, 4, 6))


@pytest.mark.long
@pytest.mark.parametrize("grid", ALL_GRIDS, ids=repr)
def test_every_grid_is_what_it_says(grid: Any) -> None:
    check_block(grid, (grid.size,))


@pytest.mark.long
@pytest.mark.parametrize("algorithm", OWN, ids=lambda algorithm: algorithm.name)
def test_every_algorithm_is_what_it_says(algorithm: Any) -> None:
    grids = [each for each in ALL_GRIDS if algorithm.name in (*each.algorithms, each.all_to_all)]
    if grids:
        for grid in grids:  # on which its times are compared in the test before
            check_algorithm(algorithm, [grid], [])
    else:
        check_algorithm(algorithm, sizes=(5, 8))


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_of_dimensions_is_what_it_says(order: str) -> None:
    check_order(order)


# --- steps measured from messages ----------------------------------------------------------------


def sums(steps: PhaseSteps) -> list[float]:
    """Hops, bytes at all of an NPU's bandwidth, bytes reduced, and growth."""
    return [
        sum(step.count * step.hops for step in steps.steps),
        sum(step.count * step.bytes_fraction for step in steps.steps) / steps.share,
        sum(step.count * step.reduce_fraction for step in steps.steps),
        steps.growth,
    ]


@pytest.mark.long
@pytest.mark.parametrize("policy", SubgroupBandwidth)
@pytest.mark.parametrize("block", [Ring(), FullyConnected(), Switch(), *ALL_GRIDS], ids=repr)
def test_steps_that_are_written_are_those_that_are_measured(
    block: Any, policy: SubgroupBandwidth
) -> None:
    """On the wires, for all groups of dimensions of up to 16 NPUs."""
    compared = 0
    for n in [block.size] if block in ALL_GRIDS else [2, 3, 4, 8, 12]:
        for p, stride in groups_of(n):
            setting = Setting(block, n, p, stride, policy)
            for name in {*list_algorithms(block), *list_all_to_alls(block)}:
                compared += sum(agrees(name, kind, setting) for kind in CollectiveKind)
    assert compared >= 3


def agrees(name: str, kind: CollectiveKind, setting: Setting) -> bool:
    """Whether there was something to compare: strands side by side are not measured, and where all
    of the bandwidth is granted nothing is relayed round a circle."""
    algorithm = ALGORITHMS[name].adapt_to_block(setting.block)
    circle = setting.block.closes_ring(setting.n, setting.p, setting.stride)
    if circle and setting.policy is SubgroupBandwidth.FULL and kind is CollectiveKind.ALL_TO_ALL:
        return False
    try:
        written = algorithm.steps(kind, setting)
        measured = measured_steps(algorithm.rounds(kind, setting.p, circle), kind, setting)
    except DimsweepError:
        return False
    assert sums(measured) == pytest.approx(sums(written), rel=1e-12)
    return True


class Doubling(AllReduceOnly):
    """Recursive doubling, of which only the messages are written down."""

    name = "doubling"
    blocks = ("Switch",)
    offsets = 1  # of which each member's partners are multiples

    def fused_rounds(self, p: int) -> MemberRounds:
        if p & (p - 1):
            raise DimsweepError(f"{p} members are no power of two")
        shifts = (Shift(self.offsets << k, 1.0, pairs=True) for k in range(p.bit_length() - 1))
        return in_step([(shift,) for shift in shifts], p, reduces=True)


class Scatter(ScatterGather):
    """Everybody sends each shard to whom it belongs, one after another."""

    name = "scatter"
    blocks = ("Switch",)
    shard = 1.0

    def scatter_rounds(self, p: int, circle: bool) -> tuple[tuple[Shift, ...], ...]:
        return tuple((Shift(k, self.shard / p),) for k in range(1, p))


class Exchange(AllToAllOnly):
    """The same for an all-to-all."""

    name = "exchange"
    all_to_all_on = ("Switch", "FullyConnected")
    rounds_less = 0

    def exchange_rounds(self, p: int) -> tuple[tuple[Shift, ...], ...]:
        return tuple((Shift(k, 1 / p),) for k in range(1, p - self.rounds_less))


HALVING = ALGORITHMS["halving_doubling"]


@pytest.fixture
def put() -> Iterator[Any]:
    yield lambda each: ALGORITHMS.setdefault(each.name, each)
    for name in [name for name, each in ALGORITHMS.items() if each not in OWN]:
        del ALGORITHMS[name]


@pytest.mark.long
@pytest.mark.parametrize("kind", [Doubling, Scatter, Exchange])
def test_an_algorithm_of_messages_alone_works_in_all_fidelities(kind: Any, put: Any) -> None:
    check_algorithm(put(kind()), sizes=(3, 4, 8))


def test_it_is_equal_to_the_same_with_steps_of_its_own(put: Any) -> None:
    setting = Setting(Switch(), 8, 8, 1)
    exchange, pairwise = put(Exchange()), ALGORITHMS["pairwise"]
    kind = CollectiveKind.ALL_TO_ALL
    assert sums(exchange.steps(kind, setting)) == sums(pairwise.steps(kind, setting))
    assert exchange.n_messages(kind, 8, False) == pairwise.n_messages(kind, 8, False) == 56


# --- what is not right ---------------------------------------------------------------------------


def refusal(check: Any, *args: Any) -> str:
    with pytest.raises(DimsweepError) as error:
        check(*args)
    return str(error.value)


def test_an_algorithm_that_no_one_registered_is_told() -> None:
    assert "algorithm doubling: it is not registered" in refusal(check_algorithm, Doubling())


@pytest.mark.parametrize(
    ("kind", "changes", "finding"),
    [
        (Doubling, {"offsets": 0}, "a member sends to itself"),
        (Scatter, {"shard": 0.5}, "members reduce 0.5 times their own bytes, where 1 are needed"),
        (Scatter, {"shard": 2.0}, "a member sends 1 times its own bytes, and 0.5 by steps"),
        (
            Scatter,
            {"scatter_steps": HALVING.scatter_steps},
            "0.058096 ms by phases, 0.059496",
        ),
        (Exchange, {"rounds_less": 1}, "a member receives nothing of some other member"),
        (Exchange, {"n_rounds": lambda self, p: p}, "2 messages, and 4 by n_messages"),
        (
            Exchange,
            {"exchange_steps": lambda self, setting: (Step(setting.p, 2, 1 / setting.p),)},
            "by phases",
        ),
        (Exchange, {"all_to_all_on": ()}, "no registered block runs it"),
    ],
)
def test_a_wrong_algorithm_is_told(kind: Any, changes: Any, finding: str, put: Any) -> None:
    wrong = type("Wrong", (kind,), changes)
    assert finding in refusal(check_algorithm, put(wrong()), (), (4,))


class HyperX(Block):
    """Rows and columns of NPUs of which each is joined to all others (4 by n / 4)."""

    name = "HyperX"
    algorithms = ("direct",)
    all_to_all = "direct"
    hops = 1
    sends_concurrently = True
    parts = ("nic",)

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        return LinkUse(1.0, 1, 1)  # wrong: only those of a row or a column are neighbours

    def message_path(self, n: int, offset: int) -> MessagePath:
        return MessagePath(1 / self.links(n), 1 if offset % 4 == 0 else 2)

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return 3 + n // 4 - 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        for i, npu in enumerate(npus):
            for j, other in enumerate(npus):
                if i != j and (i // 4 == j // 4 or i % 4 == j % 4):
                    yield npu, other

    def cut(self, n: int) -> float:
        return 4 / self.links(n)


def without(*pairs: Pair) -> Any:
    return lambda self, npus, place: (p for p in HyperX().wire(npus, place) if p not in pairs)


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, "HyperX(8) that are 1 apart are 1 links apart, 2 by message_path()"),
        ({"links": lambda self, n: 5}, "an NPU of HyperX(8) has 4 links, and 5 by links()"),
        ({"wire": without(*((0, j) for j in range(8)))}, "can send to all others"),
        ({"wire": lambda self, npus, place: [(0, 0), (0, 9)]}, "wires 9, which is none of its"),
        (
            {"__eq__": lambda self, other: self is other, "__hash__": object.__hash__},
            "a copy of it",
        ),
        ({"algorithms": ("magic",)}, "not registered: magic"),
    ],
)
def test_a_wrong_block_is_told(changes: Any, finding: str) -> None:
    wrong = type("HyperX", (HyperX,), changes)
    assert finding in refusal(check_block, wrong(), (8,))


class Near(HyperX):
    """The same with ways that are right for most NPUs."""

    def message_path(self, n: int, offset: int) -> MessagePath:
        return MessagePath(1 / self.links(n), 1 if offset in (1, 4, 7) else 2)


class Loose(Near):
    """And with another cut."""

    def cut(self, n: int) -> float:
        return 2 / self.links(n)


def test_a_block_that_promises_all_links_to_every_group_is_told() -> None:
    """Its ways are right for most NPUs: then only simulating it shows what is wrong."""
    found = refusal(check_block, Near(), (8,))
    assert "by phases" in found and "by messages" in found and "cut()" not in found
    assert "halves of HyperX(8) can send each other 1 of an NPU's bandwidth, 0.5" in refusal(
        check_block, Loose(), (8,)
    )
