"""Why trials failed: near-identical messages are one, with the range of their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.sweeper.report.causes import causes, frequent_errors
from tests.support.reports import fail, make_rows, make_study, search, text_of

NEEDS = "npu.memory: stage {} must hold {} of 86 GB: optimizer {}; more stages"


def test_thousands_of_messages_are_one_cause() -> None:
    texts = [NEEDS.format(i % 4, f"{90 + i} GB", f"{600 + i} MB") for i in range(571)]
    texts += ["a batch of 512 does not divide by 256 replicas"] * 3
    assert causes(texts) == [
        (NEEDS.format("0 to 3", "90.00 to 660.0 GB", "600.0 MB to 1.170 GB"), 571),
        ("a batch of 512 does not divide by 256 replicas", 3),
    ]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["x 5, y 1,024", "x 6, y 7"], "x 5 to 6, y 7 to 1,024"),
        (["0.5 s", "700 ms"], "500.0 to 700.0 ms"),
        (["1 GB/s", "1 GB"], None),  # quantities of unlike kinds are no range
        (["Ring(4)_Switch(8)", "Ring(8)_Switch(8)"], None),  # names
        (["mixtral_8x22b", "mixtral_8x7b"], None),
        (["at a.yaml:12: no", "at a.yaml:13: no"], None),  # places
    ],
)
def test_what_is_a_number_and_what_is_a_name(texts: list[str], told: str | None) -> None:
    expected = [(told, 2)] if told else [(text, 1) for text in texts]
    assert causes(texts) == expected


@given(st.lists(st.text(max_size=30)))
def test_every_failure_is_counted_once(texts: list[str]) -> None:
    found = causes(texts)
    assert sum(count for _, count in found) == len(texts)
    counts = [count for _, count in found]
    assert counts == sorted(counts, reverse=True)


@given(st.text(max_size=40), st.integers(1, 5))
def test_a_message_alone_is_told_as_it_is(text: str, times: int) -> None:
    assert causes([text] * times) == [(text, times)]


def test_the_terminal_tells_the_causes() -> None:
    rows = make_rows(search(12))
    rows = fail(rows, range(3, 9), "needs 90 GB of 86 GB")
    rows.loc[5, "error"] = "needs 660 GB of 86 GB"
    assert frequent_errors([rows[rows["state"] == "failed"]]) == [
        ("needs 90.00 to 660.0 GB of 86 GB", 6)
    ]
    assert "6 x needs 90.00 to 660.0 GB of 86 GB" in text_of(rows, make_study(rows))
