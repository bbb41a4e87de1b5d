"""Files of nccl-tests: their text, and tables of the same."""

from pathlib import Path

import pytest

from dimsweep.engine import CollectiveKind, DimsweepError
from dimsweep.engine.cluster import Timing
from dimsweep.engine.formats import read_nccl_tests

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
    with pytest.raises(DimsweepError, match=r"run\.txt: line 12: which collective"):
        read_nccl_tests(written(tmp_path, text))


def test_a_table(tmp_path: Path) -> None:
    text = "source,gpu,gpus,nodes,op,bytes,time_us\nx,H100,8,1,alltoall,512,6.5\n"
    found = read_nccl_tests(written(tmp_path, text, "nccl.csv"))
    assert found.timings == (Timing(CollectiveKind.ALL_TO_ALL, 8, 1, 512, 6_500_000),)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no collective was measured"),
        (RANKS, "no collective was measured"),
        ("# all_reduce_perf\n" + ROWS, "line 2: among which ranks"),
        (RANKS + ROWS.replace("17.51", "quick"), "line 13: a number cannot be read"),
        (RANKS + ROWS.replace("17.51", "0.00"), "line 13: 1024 bytes in 0.00 us is no timing"),
        ("op,gpus,nodes,bytes,time_us\nbroadcast,8,1,512,6\n", "line 2: there is no collective"),
        (
            "gpu,op,gpus,nodes,bytes,time_us\nA100,all_reduce,8,1,512,6\nB200,all_reduce,8,1,512,6\n",
            "line 3: 'B200' comes after 'A100'",
        ),
        ("op,gpus,nodes,bytes,time_us\nall_reduce,9,2,512,6\n", "no group of equal nodes"),
    ],
)
def test_what_is_no_measurement_is_refused(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(DimsweepError, match=match):
        read_nccl_tests(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DimsweepError, match="cannot be read"):
        read_nccl_tests(tmp_path / "nothing")
