"""Files of nccl-tests: their text, and tables of the same."""

from pathlib import Path

import pytest

from dimsweep.engine import CollectiveKind
from dimsweep.engine.cluster import Timing
from dimsweep.engine.errors import Code
from dimsweep.engine.formats import is_nccl_tests, read_nccl_tests
from tests.support.nccl import json_of, result
from tests.support.refused import refused

RANKS = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4033 on      one device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4034 on      one device  1 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   3317 on      two device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   3318 on      two device  1 [0x0f] NVIDIA H100 80GB HBM3
#
#                              out-of-place              in-place
# size   count  type redop root time algbw busbw #wrong time algbw busbw #wrong
#  (B) (elements)               (us) (GB/s) (GB/s)      (us) (GB/s) (GB/s)
"""
ROWS = """\
 1024     256 float sum -1 17.51  0.06  0.09   0 16.90  0.06  0.09   0
 4194304 1048576 float sum -1 101.2 41.43 62.14 N/A 100.3 41.80 62.70 N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 31.1
"""
ALL_REDUCE = CollectiveKind.ALL_REDUCE


def written(folder: Path, text: str, name: str = "run.txt") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_text_of_nccl_tests(tmp_path: Path) -> None:
    found = read_nccl_tests(written(tmp_path, RANKS + ROWS))
    assert found.source == "run.txt"
    assert found.timings == (
        Timing(ALL_REDUCE, 4, 2, 1024, 17_510_000),
        Timing(ALL_REDUCE, 4, 2, 4194304, 101_200_000),
    )


def test_several_outputs_in_one_file(tmp_path: Path) -> None:
    one = "".join(f"#  Rank  {i} Group  0 Pid {i} on a device {i} [0x{i}] X\n" for i in (0, 1))
    row = "  2048  128  half  none  -1  5.5  0.1  0.1  0  5.6  0.1  0.1  0\n"
    text = RANKS + ROWS + "# Collective test starting: all_gather_perf\n" + one + row
    timings = read_nccl_tests(written(tmp_path, text)).timings
    assert [t.ranks for t in timings] == [4, 4, 2]
    assert timings[-1] == Timing(CollectiveKind.ALL_GATHER, 2, 1, 2048, 5_500_000)


def test_the_name_of_the_file_may_say_what_ran(tmp_path: Path) -> None:
    text = "\n".join((RANKS + ROWS).splitlines()[1:])
    timings = read_nccl_tests(written(tmp_path, text, "alltoall_perf.log")).timings
    assert timings[0].kind is CollectiveKind.ALL_TO_ALL
    with refused("run.txt: line 12", "missing", "all_gather"):
        read_nccl_tests(written(tmp_path, text))


def test_a_table(tmp_path: Path) -> None:
    text = "source,gpu,gpus,nodes,op,bytes,time_us\nx,H100,8,1,alltoall,512,6.5\n"
    found = read_nccl_tests(written(tmp_path, text, "nccl.csv"))
    assert found.timings == (Timing(CollectiveKind.ALL_TO_ALL, 8, 1, 512, 6_500_000),)


@pytest.mark.parametrize(
    ("text", "place", "code", "data"),
    [
        ("", "run.txt", "missing", "nccl-tests"),
        (RANKS, "run.txt", "missing", "nccl-tests"),
        ("# all_reduce_perf\n" + ROWS, "line 2", "missing", "Rank 0"),
        (RANKS + ROWS.replace("17.51", "quick"), "line 13", "bad-syntax", "quick"),
        (RANKS + ROWS.replace("17.51", "0.00"), "line 13", "out-of-range", "0.00 us"),
        (
            "op,gpus,nodes,bytes,time_us\nbroadcast,8,1,512,6\n",
            "line 2",
            "unknown-name",
            "'broadcast'",
        ),
        (
            "gpu,op,gpus,nodes,bytes,time_us\nA100,all_reduce,8,1,512,6\nB200,all_reduce,8,1,512,6\n",
            "line 3",
            "conflict",
            "'B200'",
        ),
        ("op,gpus,nodes,bytes,time_us\nall_reduce,9,2,512,6\n", "line 2", "out-of-range", "9 GPUs"),
    ],
)
def test_what_is_no_measurement_is_refused(
    tmp_path: Path, text: str, place: str, code: Code, data: str
) -> None:
    with refused(place, code, data):
        read_nccl_tests(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with refused("nothing", "inaccessible"):
        read_nccl_tests(tmp_path / "nothing")


ONE_HOST = "".join(f"#  Rank  {i} Group  0 Pid {i} on a device {i} [0x{i}] X\n" for i in (0, 1))
ROW = "  2048  128  half  none  -1  5.5  0.1  0.1  0  5.6  0.1  0.1  0\n"


@pytest.mark.parametrize(
    "name",
    ["broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube", "alltoallv",
     "all_reduce_bias"],
)  # fmt: skip
def test_rows_of_other_tests_are_left_out(tmp_path: Path, name: str) -> None:
    """They were taken for the collective before them."""
    text = RANKS + ROWS + f"# Collective test starting: {name}_perf\n" + ONE_HOST + ROW
    found = read_nccl_tests(written(tmp_path, text))
    assert [t.kind for t in found.timings] == [ALL_REDUCE] * 2
    assert found.left_out == f"1 row of {name}"
    with refused(str(tmp_path / "only.txt"), "missing", f"1 row of {name}"):
        read_nccl_tests(written(tmp_path, f"{name}_perf -b 8\n" + ONE_HOST + ROW, "only.txt"))


def test_ranks_that_come_anew_need_a_name_anew(tmp_path: Path) -> None:
    """The end of a test names the one that ended."""
    end = "# Collective test concluded: all_reduce_perf\n"
    found = read_nccl_tests(written(tmp_path, RANKS + ROWS + end + ONE_HOST + ROW + ROW))
    assert len(found.timings) == 2
    assert found.left_out == "2 rows of a test without a name"
    named = read_nccl_tests(written(tmp_path, RANKS + ROWS + ONE_HOST + ROW, "all_reduce.log"))
    assert [t.ranks for t in named.timings] == [4, 4, 2]


def test_ranks_of_an_output_without_rows_do_not_count(tmp_path: Path) -> None:
    found = read_nccl_tests(written(tmp_path, RANKS + RANKS + ROWS))
    assert [t.ranks for t in found.timings] == [4, 4]


def test_rows_of_no_bytes_are_left_out(tmp_path: Path) -> None:
    """8 bytes among 16 ranks are none for each."""
    none = " 0 0 float none -1 0.30 0.00 0.00 0 0.30 0.00 0.00 0\n"
    found = read_nccl_tests(written(tmp_path, RANKS + none * 2 + ROWS))
    assert len(found.timings) == 2
    assert found.left_out == ""
    table = "op,gpus,nodes,bytes,time_us\nall_gather,8,1,0,0.3\nall_gather,8,1,512,6\n"
    assert len(read_nccl_tests(written(tmp_path, table)).timings) == 1


@pytest.mark.parametrize(
    "prefix",
    ["0: ", " 0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "2026-01-02T03:04:05.678901Z stdout F ",
     "node-0: ", "12:00:01 | ", "    "],
)  # fmt: skip
def test_lines_may_have_a_prefix(tmp_path: Path, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in (RANKS + ROWS).splitlines())
    bare = read_nccl_tests(written(tmp_path, RANKS + ROWS))
    assert read_nccl_tests(written(tmp_path, text)) == bare
    command = "mpirun --mca btl tcp,self -x NCCL_IB_HCA=mlx5_0,mlx5_1 all_reduce_perf -b 8\n"
    assert read_nccl_tests(written(tmp_path, command + text)) == bare


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_text_and_tables_with_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    table = '"OP","GPUs","Nodes","Bytes","time_us"\r\n"all_reduce",8,1,512,6\r\n'
    for text, n in ((RANKS + ROWS, 2), (table, 1)):
        (tmp_path / "run.csv").write_bytes(text.encode(encoding))
        assert len(read_nccl_tests(tmp_path / "run.csv").timings) == n


@pytest.mark.parametrize(
    ("row", "us"),
    [
        ("1024 256 float sum 27.14 0.04 0.07 4e-07 26.86 0.04 0.07 4e-07", 27.14),  # without root
        ("1024 256 float sum 90330 0.04 0.07 0e+00 91945 0.04 0.07 0e+00", 90330),
        ("1024 256 float 27.14 0.04 0.07 0 26.86 0.04 0.07 0", 27.14),  # without an operation
        ("1024 256 bfloat16 sum -1 27.14 0.04 0.07 N/A 26.86 0.04 0.07 N/A", 27.14),
        ("1024 1024 f8e4m3 sum -1 27.14 0.04 0.07 0 26.86 0.04 0.07 0 2026-01-02 03:04:05", 27.14),
        ("1024 256 float sum -1 - - - - 26.86 0.04 0.07 0", 26.86),  # in place only
        ("1024 256 float sum -1                          26.86 0.04 0.07 0", 26.86),
    ],
)
def test_columns_of_all_versions(tmp_path: Path, row: str, us: float) -> None:
    (found,) = read_nccl_tests(written(tmp_path, RANKS + row + "\n")).timings
    assert found == Timing(ALL_REDUCE, 4, 2, 1024, round(us * 1e6))


def test_rows_with_wrong_results_are_left_out(tmp_path: Path) -> None:
    wrong = "1024 256 float sum -1 7.5 0.06 0.09 3 16.90 0.06 0.09 0\n"
    found = read_nccl_tests(written(tmp_path, RANKS + wrong + ROWS))
    assert len(found.timings) == 2
    assert found.left_out == "1 row with wrong results"


def test_ranks_as_rccl_tests_print_them(tmp_path: Path) -> None:
    rank = "#   Rank  {0} Pid  21284 on host-{0} device  0 [0000:2f:00.0] AMD Instinct MI100\n"
    text = "# all_reduce_perf\nrccl-tests: Version develop:3f7f785\n# Using devices\n"
    found = read_nccl_tests(written(tmp_path, text + rank.format(0) + rank.format(1) + ROWS))
    assert found.timings[0] == Timing(ALL_REDUCE, 2, 2, 1024, 17_510_000)


def test_groups_of_ranks_at_once_are_refused(tmp_path: Path) -> None:
    with refused("run.txt: line 6", "unsupported"):
        read_nccl_tests(written(tmp_path, RANKS.replace("Rank  1 Group  0", "Rank  1 Group  1")))


def test_the_json_of_nccl_tests_is_read(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    rows = [result(0, 5.0, 5.0), result(1024, 12.5, 12.0), result(2048, None, 13.0, None),
            result(4096, 20.0, 20.0, 3.0)]  # fmt: skip
    file.write_text(json_of("all_gather_perf", 2, *rows))
    assert is_nccl_tests(file.read_text())
    found = read_nccl_tests(file)
    kind = CollectiveKind.ALL_GATHER
    assert found.timings == (
        Timing(kind, 8, 2, 1024, 12_500_000), Timing(kind, 8, 2, 2048, 13_000_000)
    )  # fmt: skip
    assert found.left_out == "1 row with wrong results"


@pytest.mark.parametrize(
    ("text", "place", "code", "data"),
    [
        (
            json_of("broadcast_perf", 1, result(8, 1.0, 1.0)),
            "json",
            "missing",
            "1 row of broadcast",
        ),
        (json_of("mine", 1, result(8, 1.0, 1.0)), "[0]", "missing", "all_reduce"),
        (json_of("all_reduce_perf", 3, result(8, 1.0, 1.0)), "[0]", "out-of-range", "8 GPUs"),
        (json_of("all_reduce_perf", 1, result(8, -1.0, 1.0)), "[0]", "out-of-range", "-1.0 us"),
        (
            json_of("all_reduce_perf", 1, {"size": "x", "out_of_place": None}),
            "results[0].size",
            "wrong-type",
            "'x'",
        ),
    ],
)
def test_what_is_wrong_with_the_json_is_named(
    tmp_path: Path, text: str, place: str, code: Code, data: str
) -> None:
    file = tmp_path / "run.json"
    file.write_text(text)
    with refused(place, code, data, str(file)):
        read_nccl_tests(file)
