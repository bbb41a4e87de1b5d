"""Tables fit their terminal, and no word is broken that fits it."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dimsweep.sweeper.columns import TerminalTable, split_line, wrap_text
from dimsweep.sweeper.table import Table

SHAPE = "Torus2D(4,4)_FullyConnected(8)_Switch(2)_Switch(16)"


def printed(table: TerminalTable, width: int) -> list[str]:
    where = Console(file=io.StringIO(), width=width, color_system=None)
    where.print(table)
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue().splitlines()


def test_a_name_is_broken_at_its_joints_and_a_number_keeps_its_unit() -> None:
    assert split_line(SHAPE) == ["Torus2D(4,4)_", "FullyConnected(8)_", "Switch(2)_", "Switch(16)"]
    assert split_line("289 182 21.7 GB/s") == ["289 ", "182 ", "21.7 GB/s"]
    assert split_line("workload.parallel.tensor 1.5 %") == [
        "workload.",
        "parallel.",
        "tensor ",
        "1.5 %",
    ]
    assert wrap_text(SHAPE, 20).split("\n") == [
        "Torus2D(4,4)_",
        "FullyConnected(8)_",
        "Switch(2)_Switch(16)",
    ]
    assert wrap_text("hexadecimal", 4) == "hexa\ndeci\nmal"


@pytest.mark.parametrize("width", [80, 120])
def test_shapes_are_whole_in_a_table_of_eight_columns(width: int) -> None:
    heads = ("workload", "shape", "best split, GB/s", "time", "faster than baseline", "gap")
    row = ("turing_nlg_libra", SHAPE, "397 89.2 7 6.8", "727.6 ms", "1.01x", "0.0091%")
    lines = printed(TerminalTable(Table("", heads, [row] * 2, 2)), width)
    assert max(map(len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    joined = re.sub(r"\s", "", "".join(words))
    for part in (*split_line(SHAPE), "727.6", "1.01x", "0.0091%", "baseline"):
        assert any(part.strip() in word for word in words), part
    assert joined.count("Switch(16)") == 2  # once a row: it is one block


def test_columns_that_do_not_fit_are_dropped_by_rank_and_named() -> None:
    heads = ["change", *(f"oversubscription_{i}" for i in range(9))]
    row = ["layers x2", *(f"{i}.000x" for i in range(9))]
    lines = printed(TerminalTable(Table("What if", heads, [row], ranks=[0, 1, *[0] * 8])), 40)
    assert lines[0] == "What if" and max(map(len, lines)) <= 40
    shown = [i for i in range(9) if any(f"{i}.000x" in line for line in lines)]
    assert shown and 0 not in shown and shown == list(range(1, len(shown) + 1))
    below = "".join("".join(lines).partition("not shown")[2].split())
    assert [i for i in range(9) if f"oversubscription_{i}" in below] == [
        i for i in range(9) if i not in shown
    ]


def test_names_without_a_joint_leave_half_of_the_width_to_numbers() -> None:
    row = ("long" * 20, "7.5 GB/s", "1.01x")
    lines = printed(TerminalTable(Table("", ("name", "best", "gain"), [row])), 40)
    assert sum("7.5 GB/s" in line and "1.01x" in line for line in lines) == 1
    assert not any(line.strip() == "" for line in lines)  # it is one block


def test_the_widest_is_broken_first() -> None:
    lines = printed(TerminalTable(Table("", ("a", "b"), [("short", "x" * 60)], 2)), 30)
    assert any("short" in line for line in lines)
    assert "".join(lines).count("x") == 60


WORDS = st.text(st.sampled_from("abc_.8("), min_size=1, max_size=14)
CELLS = st.lists(WORDS, max_size=4).map(" ".join)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.lists(CELLS, min_size=n, max_size=n),
            st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=4),
            st.integers(0, n),
        )
    ),
    st.sampled_from([12, 40, 80]),
)
def test_what_fits_is_never_broken(
    made: tuple[list[str], list[list[str]], int], width: int
) -> None:
    heads, rows, names = made
    lines = printed(TerminalTable(Table("", heads, rows, names)), width)
    assert all(len(line) <= width for line in lines)
    if width > 12 and names < 2 and any(heads):  # more names may need more than their half
        is_whole = not any("not shown" in line for line in lines)
        for text in (*heads, *(cell for row in rows for cell in row if is_whole)):
            for piece in split_line(text):
                assert any(piece.strip() in line for line in lines)


def test_names_of_which_there_are_too_many_are_in_one_column_each_after_its_head() -> None:
    heads = ("shape", "bandwidth", "parallel", "recompute", "time")
    row = (SHAPE, "450 100 50 12.5 GB/s", "tensor: 4, data: 64", "selective", "7.6 s")
    lines = printed(TerminalTable(Table("", heads, [row] * 2, 4)), 60)
    assert max(map(len, lines)) <= 60
    text = " ".join(lines)
    assert all(text.count(word) == 2 for word in ("shape", "recompute", "selective", "7.6 s"))
    assert all(any(part in line for line in lines) for part in split_line(SHAPE))
