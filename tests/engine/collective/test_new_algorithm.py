"""A collective algorithm from outside of the engine: one class, and both kernels run it."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Dimension,
    FullyConnected,
    Ring,
    Switch,
    Topology,
)
from dimsweep.engine.collective.algorithms import (
    ALGORITHMS,
    Algorithm,
    AllReduceOnly,
    algorithm_for,
    list_algorithms,
    register,
)
from dimsweep.engine.collective.rounds import MemberRounds, Round, RoundMessage, Shift, strand
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from tests.support.messages import times
from tests.support.programs import one_collective
from tests.support.refused import refused

ALL_REDUCE = CollectiveKind.ALL_REDUCE


class RecursiveDoubling(AllReduceOnly):
    """Pairs exchange and add up all of their bytes, log2 p times; p is a power of two."""

    name = "recursive_doubling"
    blocks = ("Switch",)

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        rounds = setting.p.bit_length() - 1
        step = Step(rounds, setting.use.hops, 1.0, 1.0)
        return PhaseSteps((step,), setting.use.share, 1.0, float(rounds))

    def fused_rounds(self, p: int) -> MemberRounds:
        rounds = [(Shift(2**k, 1.0, pairs=True),) for k in range(p.bit_length() - 1)]
        return MemberRounds(tuple((strand(rounds, p, i, reduces=True),) for i in range(p)))

    def n_fused_messages(self, p: int) -> int:
        return p * (p.bit_length() - 1)


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    register(RecursiveDoubling())
    yield
    del ALGORITHMS["recursive_doubling"]


@given(
    st.sampled_from([ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER]),
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([0, 700]),
    st.sampled_from([0, 300]),
)
def test_both_kernels_agree_on_an_algorithm_from_outside(
    kind: CollectiveKind, p: int, latency: int, endpoint_delay: int
) -> None:
    dims = (Dimension(Ring(), 2, 1e12 / 256, 50), Dimension(Switch(), p, 1e12 / 1024, latency))
    model = CollectiveModel(
        chunks=4, algorithms=("auto", "recursive_doubling"), endpoint_delay=endpoint_delay
    )
    cluster = Cluster(Topology(dims), collectives=model)
    by_phase, by_message = times(one_collective(kind, 2.0**20, (2, p)), cluster)
    assert by_phase == by_message > 0


def test_an_all_reduce_by_it_lasts_as_long_as_the_textbook_says() -> None:
    model = CollectiveModel(chunks=1, algorithms=("recursive_doubling",))
    cluster = Cluster(Topology((Dimension(Switch(), 8, 1e9, 1000),)), collectives=model)
    expected = round(3 * (2 * 1000 + 8e6 / 1e9 * 1e12))
    assert times(one_collective(ALL_REDUCE, 8e6, (8,)), cluster) == (expected, expected)


def test_it_runs_on_the_blocks_that_it_names_and_on_no_others() -> None:
    assert list_algorithms(Switch())[-1] == "recursive_doubling"
    assert algorithm_for(Switch(), "auto").name == "halving_doubling"
    for block in (Ring(), FullyConnected()):
        with refused("collective.algorithms", "unsupported", "'recursive_doubling'"):
            algorithm_for(block, "recursive_doubling")


def test_a_name_belongs_to_one_algorithm() -> None:
    class Other(RecursiveDoubling):
        """Another class of the same name."""

    class Auto(RecursiveDoubling):
        name = "auto"

    register(RecursiveDoubling())  # again: nothing happens
    for algorithm in (Other(), Auto()):
        with refused("collective.algorithms", "duplicate", f"'{algorithm.name}'"):
            register(algorithm)


@pytest.mark.parametrize(
    "method",
    [name for name, part in vars(Algorithm).items() if getattr(part, "__isabstractmethod__", 0)],
)
def test_an_algorithm_that_forgets_something_cannot_be_made(method: str) -> None:
    whole = {"name": "whole", "steps": None, "rounds": None, "n_messages": None}
    type("Whole", (Algorithm,), dict(whole))()
    del whole[method]
    with pytest.raises(TypeError, match=method):
        type("Forgetful", (Algorithm,), whole)()


def test_two_descriptions_that_differ_are_told_apart() -> None:
    """The kernels hold each other to account: a round too few, and their times part."""

    class Careless(RecursiveDoubling):
        name = "careless"

        def fused_rounds(self, p: int) -> MemberRounds:
            once = (Round((), 0.0, (RoundMessage(1, 1.0),)), Round((1,), 1.0, ()))
            other = (Round((), 0.0, (RoundMessage(0, 1.0),)), Round((0,), 1.0, ()))
            rest = [((Round((), 0.0, ()),),)] * (p - 2)
            return MemberRounds(((once,), (other,), *rest))

    register(Careless())
    try:
        model = CollectiveModel(chunks=1, algorithms=("careless",))
        cluster = Cluster(Topology((Dimension(Switch(), 4, 1e9, 0),)), collectives=model)
        by_phase, by_message = times(one_collective(ALL_REDUCE, 8e6, (4,)), cluster)
        assert by_phase == 2 * by_message
    finally:
        del ALGORITHMS["careless"]
