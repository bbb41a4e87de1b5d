"""What a what-if sets: values, factors, options; and what it refuses."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.part import parse_bandwidth
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.questions.what_if.change import NoChangeError, multiply, resolve
from dimsweep.sweeper.study.restore import format_split, parse_split

CONFIG = compose(
    ["workload=gpt3_13b", "topology=dgx_h100", "npu=h100", "cost=dgx_h100", "name=x"]
).config
TIERS = ("package", "pod")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"topology.bandwidth[1]": "x2"}, {"topology.bandwidth": ["450 GB/s", "800 Gb/s"]}),
        ({"topology.bandwidth.1": "x7/8"}, {"topology.bandwidth": ["450 GB/s", "350 Gb/s"]}),
        (
            {"topology.bandwidth[0]": "x2", "topology.bandwidth[1]": "100 GB/s"},
            {"topology.bandwidth": ["900 GB/s", "100 GB/s"]},
        ),
        ({"topology.latency": "x0.5"}, {"topology.latency": ["0.25 us", "0.5 us"]}),
        ({"collective.chunks": "x 2"}, {"collective.chunks": 128}),
        ({"npu.efficiency": "x0.5"}, {"npu.efficiency": 0.455}),
        ({"workload.plan.micro_batch": 2}, {"workload.plan.micro_batch": 2}),
        ({"cost.npu": "x2"}, {"cost.npu": "75000 USD"}),
    ],
)
def test_a_change_is_a_value_or_a_factor(changes: dict[str, object], found: object) -> None:
    assert resolve(CONFIG, changes) == found
    CONFIG.with_values(resolve(CONFIG, changes))


def test_a_factor_is_for_every_number_of_a_mapping() -> None:
    before, (after,) = (
        CONFIG.value("cost.tiers.pod"),
        resolve(CONFIG, {"cost.tiers.pod": "x2"}).values(),
    )
    numbers = {name: each for name, each in before.items() if each is not None}
    assert after == before | {name: multiply(each, Fraction(2)) for name, each in numbers.items()}
    program = [
        CONFIG.with_values(each).cost for each in ({}, resolve(CONFIG, {"cost.tiers": "x2"}))
    ]
    for tier in TIERS:
        assert program[1].tiers[tier].link == 2 * program[0].tiers[tier].link


def test_one_bandwidth_for_all_dimensions_becomes_one_each() -> None:
    config = CONFIG.with_values({"topology.bandwidth": "100 GB/s"})
    assert resolve(config, {"topology.bandwidth[1]": "x2"}) == {
        "topology.bandwidth": ["100 GB/s", "200 GB/s"]
    }


def test_an_option_of_a_group_is_all_that_it_says() -> None:
    (npu,) = resolve(CONFIG, {"npu": "b200"}).values()
    assert npu == compose(["npu=b200"]).config.text["npu"] != CONFIG.text["npu"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topology.bandwith": "x2"}, "topology.bandwith.*no key 'bandwith'"),
        ({"topology.bandwidth[2]": "x2"}, "dimensions 0 to 1"),
        ({"topology.bandwidth[-1]": "x2"}, "dimensions 0 to 1"),
        ({"topology.shape": "x2"}, "topology.shape: .*not a number"),
        ({"npu.measured": "x2"}, "no number that a factor could multiply"),
        ({"budget.trials": "x2"}, "no design depends on this key"),
        ({"npu": "b2000"}, "b2000"),
    ],
)
def test_what_cannot_be_changed_is_told(changes: dict[str, object], text: str) -> None:
    with pytest.raises(DimsweepError, match=text):
        resolve(CONFIG, changes)


@pytest.mark.parametrize(
    "changes", [{"collective.chunks": 64}, {"topology.bandwidth[1]": "50 GB/s"}, {"cost.npu": "x1"}]
)
def test_a_change_that_changes_nothing_is_told(changes: dict[str, object]) -> None:
    with pytest.raises(NoChangeError, match="it changes nothing"):
        resolve(CONFIG, changes)


@pytest.mark.parametrize(
    ("what_if", "text"),
    [
        ("800G", "not a mapping of changes"),
        ("[800G]", "not a mapping of changes"),
        ("{2: {collective.chunks: x2}}", "not the name of a change"),
        ("{a: x2}", "not a mapping of keys"),
        ("{a: {}}", "not a mapping of keys"),
        ("{a: {collective.chunk: 2}}", "what_if.a.*collective.*chunk"),
        ("{a: {collective.chunks: 8}}", "what_if.a.*changes nothing"),
        ("{a: {collective.order: x2}}", "what_if.a.collective.order.*not a number"),
        ("{a: {collective.chunks: many}}", "what_if.a.*chunks"),
        ("{a: {topology.bandwidth.7: x2}}", "dimensions 0 to 3"),
    ],
)
def test_a_wrong_what_if_is_refused_before_anything_is_simulated(what_if: str, text: str) -> None:
    words = ["study=libra_gpt3_4d", "collective.chunks=8", f"what_if={what_if}"]
    with pytest.raises(DimsweepError) as caught:
        plan_study(compose(words))
    assert re.search(text, str(caught.value), re.DOTALL)


def test_a_portfolio_is_asked_what_its_workloads_have() -> None:
    plan_study(compose(["study=libra_portfolio", "what_if={a: {collective.chunks: x2}}"]))
    with pytest.raises(DimsweepError, match=r"what_if\.a"):
        plan_study(compose(["study=libra_portfolio", "what_if={a: {collective.chunk: x2}}"]))


@pytest.mark.parametrize("text", ["null", "{}"])
def test_nothing_is_asked_where_it_is_off(text: str) -> None:
    assert compose(["study=libra_gpt3_4d", f"what_if={text}"]).config.what_if == {}


@given(st.integers(1, 10**6), st.integers(1, 64), st.integers(1, 64))
def test_a_factor_is_exact(number: int, over: int, under: int) -> None:
    text = multiply(f"{number} GB/s", Fraction(over + 1))
    assert parse_bandwidth(text) == number * (over + 1) * 1e9
    if over != under:
        changed = parse_bandwidth(multiply(f"{number} GB/s", Fraction(over, under)))
        assert changed == pytest.approx(number * over / under * 1e9, rel=1e-15)


@given(st.lists(st.integers(1, 10**14), min_size=1, max_size=5))
def test_a_split_is_the_same_as_text(split: list[int]) -> None:
    assert parse_split(format_split([float(each) for each in split])) == tuple(map(float, split))


def test_a_key_that_is_not_there_is_no_traceback() -> None:
    config = Config.from_plain(CONFIG.text)
    for name in ("topology.shape.1", "topology.tiers.9", "topology.tiers.x", "memory.kind.x"):
        with pytest.raises(DimsweepError):
            config.with_values({name: 1})
