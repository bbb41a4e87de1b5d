"""GOAL: schedules of sends, receives and calculations, with times that a person can work out."""

from pathlib import Path

import pytest

from dimsweep.engine import Cluster, DimsweepError, Npu, Topology, simulate
from dimsweep.engine.formats import read_goal
from tests.support.packet_files import RING

US = 10**6  # ps


def time_of(folder: Path, text: str, n: int = 4, fidelity: str = "flow") -> float:
    """Microseconds on a switch of 12.5 GB/s, 1 us to it and 1 us from it."""
    (folder / "s.goal").write_text(text)
    on = Cluster(Topology.build(f"Switch({n})", bandwidth=[12.5e9], latency=[US]), Npu())
    workload = read_goal(folder / "s.goal", (n,), "goal")
    return simulate(workload, on, fidelity=fidelity).time_ps / US


@pytest.mark.parametrize("fidelity", ["flow", "message"])
def test_a_ring_takes_a_message_and_a_calculation(fidelity: str, tmp_path: Path) -> None:
    """1 MB at 12.5 GB/s, 2 us of latency, and 5 us: all four at once."""
    assert time_of(tmp_path, RING, fidelity=fidelity) == 80 + 2 + 5


def test_sends_of_a_rank_leave_one_after_another(tmp_path: Path) -> None:
    """Latencies overlap: two messages of 80 us to two ranks take 160 us, and 2 us."""
    text = (
        "num_ranks 4\nrank 0 {\nsend 1000000b to 1\nsend 1000000b to 2\n}\n"
        "rank 1 {\nrecv 1000000b from 0\n}\nrank 2 {\nrecv 1000000b from 0\n}\n"
    )
    assert time_of(tmp_path, text) == 162


def test_calculations_of_a_cpu_take_turns_and_cpus_do_not(tmp_path: Path) -> None:
    one = "num_ranks 2\nrank 0 {\na: calc 3000\nb: calc 4000\nc: calc 5000 cpu {}\n}\nrank 1 {\n}\n"
    assert time_of(tmp_path, one.replace("{}", "0"), 2) == 12
    assert time_of(tmp_path, one.replace("{}", "1"), 2) == 7


def test_what_is_irequired_has_started_only(tmp_path: Path) -> None:
    """b waits for a; c, which waits for b's start, begins with it; d waits for b's end."""
    text = (
        "num_ranks 2\nrank 0 {\na: calc 1000\nb: calc 10000 cpu 1\nc: calc 2000 cpu 2\n"
        "d: calc 100 cpu 3\nb requires a\nc irequires b\nd requires b\nd requires c\n}\nrank 1 {}"
    )
    assert time_of(tmp_path, text, 2) == pytest.approx(11.1)
    assert time_of(tmp_path, text.replace("d requires b\n", ""), 2) == 11
    assert time_of(tmp_path, text.replace("calc 10000", "calc 500"), 2) == pytest.approx(3.1)


def test_messages_of_a_tag_are_received_in_turn(tmp_path: Path) -> None:
    """The second receive gets the second, shorter message: 80 + 40 us and 2 us, then 1 us."""
    text = (
        "num_ranks 2\nrank 0 {\nsend 1000000b to 1 tag 1\nsend 500000b to 1 tag 1\n}\n"
        "rank 1 { // comments\nl1: recv 1000000b from 0 tag 1\n/* of several\nlines */"
        "l2: recv 500000b from 0 tag 1\nl3: calc 1000\nl3 requires l2\n}\n"
    )
    assert time_of(tmp_path, text, 2) == 123


@pytest.mark.parametrize(
    ("text", "changed", "line"),
    [
        ("num_ranks 4\n", "\n", 2),
        ("num_ranks 4", "num_ranks 0", 1),
        ("rank 0 {", "rank 0", 2),
        ("rank 1 {", "rank 0 {", 8),
        ("rank 1 {", "rank 4 {", 8),
        ("}\nrank 1 {", "rank 1 {", 7),
        ("l1: send 1000000b to 1", "l1: send 1000000 to 1", 3),
        ("l1: send 1000000b to 1", "l1: send 1000000b to 4", 3),
        ("l1: send 1000000b to 1", "l1: send 1000000b to 0", 3),
        ("l1: send 1000000b to 1", "l1: post 1000000b to 1", 3),
        ("l2: recv 1000000b from 3 tag 7", "l2: recv 1000000b from -1 tag 7", 4),
        ("l2: recv 1000000b from 3 tag 7", "l2: recv 1000000b from 3 tag -1", 4),
        ("l2: recv 1000000b from 3 tag 7", "l2: recv 1000b from 3 tag 7", 4),
        ("l2: recv 1000000b from 3 tag 7", "l2: calc 7", 21),
        ("l3: calc 5000", "l2: calc 5000", 5),
        ("l3 requires l2", "l3 requires l4", 6),
    ],
)
def test_a_wrong_schedule_is_refused_with_its_line(
    text: str, changed: str, line: int, tmp_path: Path
) -> None:
    assert text in RING
    with pytest.raises(DimsweepError) as error:
        time_of(tmp_path, RING.replace(text, changed, 1))
    assert error.value.where.endswith(f"s.goal: line {line}")


@pytest.mark.parametrize(
    "text",
    ["", "num_ranks 2\nrank 0 {\n", "num_ranks 3", "num_ranks 2\nrank 0 {\na: calc 1\nb: calc 1\n"
     "a irequires b\nb irequires a\n}"],
)  # fmt: skip
def test_what_is_no_whole_schedule_names_its_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(DimsweepError) as error:
        time_of(tmp_path, text, 2)
    assert error.value.where.endswith("s.goal")


def test_operators_that_wait_in_a_circle_are_named(tmp_path: Path) -> None:
    text = "num_ranks 2\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}"
    with pytest.raises(DimsweepError, match="in a circle: rank 0 a"):
        time_of(tmp_path, text, 2)
