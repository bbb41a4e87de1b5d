"""Remarks of one kind are one line."""

from hypothesis import given
from hypothesis import strategies as st

from dimsweep.sweeper.report.remarks import merged


def over(group: str, dimension: str, times: float, enough: str, cells: int) -> str:
    return (
        f"{group}: dimension {dimension} is over-provisioned {times} times for what 0: Switch(16) "
        f"feeds it: with {enough} an iteration would take no longer (in {cells} of 24 cells)"
    )


FIRST = over("data", "1: Switch(64)", 10.2, "10.5696 GB/s", 3)
KEY = "collective.chunks only adds latency: no collective crosses two dimensions"
TEXTS = [
    FIRST,
    KEY,
    over("data", "2: Switch(8)", 137, "782.9 MB/s", 3),
    over("expert ranks", "3: Ring(8)", 34.3, "1.5659 GB/s", 12),
    over("data", "4: Ring(2)", 2.0, "1 GB/s", 1),
    over("data", "5: Ring(2)", 2.5, "1 GB/s", 1),
    FIRST.replace("over-provisioned", "under-provisioned"),
]


def test_a_kind_is_a_line_with_a_count_and_the_first_places() -> None:
    lines = [remark.line for remark in merged(TEXTS)]
    assert lines == [
        f"{FIRST}; and 4 more like it: data: dimension 2: Switch(8), expert ranks: dimension 3: "
        "Ring(8), data: dimension 4: Ring(2), ...",
        KEY,
        TEXTS[-1],
    ]


def test_a_number_is_a_place_with_what_it_counts() -> None:
    (remark,) = merged([FIRST, over("data", "1: Switch(64)", 2.5, "1 GB/s", 1)])
    assert remark.line == (
        f"{FIRST}; and 1 more like it: data: dimension 1: Switch(64) is over-provisioned 2.5 times"
    )


def test_keys_without_an_effect_are_kinds_of_their_own() -> None:
    idle = "made no difference: trials that differ in nothing else gave the same"
    texts = [f"collective.chunks {idle}", f"workload.plan.zero {idle}"]
    assert [remark.line for remark in merged(texts)] == texts


@given(st.lists(st.sampled_from([*TEXTS, "", "a 1", "a 2 b"]), max_size=8))
def test_nothing_is_lost_and_order_stays(texts: list[str]) -> None:
    found = merged(texts)
    assert sorted(text for remark in found for text in remark.texts) == sorted(texts)
    assert [remark.texts[0] for remark in found] == sorted(
        {remark.texts[0] for remark in found}, key=texts.index
    )
    assert all(remark.line.startswith(remark.texts[0]) for remark in found)
