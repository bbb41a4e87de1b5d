"""What nccl-tests print, and tables of such measurements, as :class:`engine.cluster.Timings`.

nccl-tests (github.com/NVIDIA/nccl-tests) print a line for each rank, such as
``#  Rank  0 Group  0 Pid 3141 on node-1 device  0 [0x18] NVIDIA H100``, and then a row for each
size: bytes, count, type, operation, root, and twice (out of place, in place) time [us], algorithm
and bus bandwidth [GB/s], and errors.  The time out of place is taken.  Several outputs may follow
one another in a file.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dimsweep.engine.cluster.library import Timing, Timings
from dimsweep.engine.errors import DimsweepError, accessing
from dimsweep.engine.formats.table import read_table
from dimsweep.engine.kinds import CollectiveKind

_COLUMNS = ("op", "gpus", "nodes", "bytes", "time_us")
_KINDS = {str(kind): kind for kind in CollectiveKind} | {"alltoall": CollectiveKind.ALL_TO_ALL}
_KIND = re.compile(r"(all_reduce|reduce_scatter|all_gather|alltoall)(?:_perf)?")
_RANK = re.compile(r"#\s+Rank\s+\d+\s.*?\bon\s+(\S+)\s+device\b")
_HALF = 4  # columns of the times out of place, and of those in place


def read_nccl_tests(file: Path) -> Timings:
    """The timings of a file: the text that nccl-tests print, or a CSV file with the columns op,
    gpus, nodes, bytes, time_us, and perhaps others.

    Raises :class:`DimsweepError` naming file and line for what is neither, for text that does not
    say which collective ran among which ranks, for rows of several kinds of GPU (a column gpu), and
    for a file without rows.
    """
    with accessing(file, "it cannot be read", UnicodeDecodeError):
        lines = file.read_text(encoding="utf-8").splitlines()
    head = lines[0].split(",") if lines else []
    found = _table(file) if set(_COLUMNS) <= set(head) else _text(lines, file)
    timings = tuple(found)
    if not timings:
        raise DimsweepError(
            "no collective was measured in it",
            where=str(file),
            hint="give what nccl-tests print, or a CSV file with the columns "
            + ", ".join(_COLUMNS),
        )
    return Timings(timings, file.name)


def _table(file: Path) -> Iterator[Timing]:
    gpu = None
    for where, row in read_table(file, _COLUMNS):
        gpu = gpu or row.get("gpu")
        if row.get("gpu") != gpu:
            raise DimsweepError(
                f"{row.get('gpu')!r} comes after {gpu!r}, and a cluster has one kind of GPU",
                where=where,
                hint="keep the rows of one cluster",
            )
        kind = _KINDS.get(row["op"])
        if kind is None:
            raise DimsweepError(f"there is no collective {row['op']!r}", where=where)
        yield _timing(kind, row["gpus"], row["nodes"], row["bytes"], row["time_us"], where)


def _text(lines: Iterable[str], file: Path) -> Iterator[Timing]:
    """Rows follow the ranks that they are of; the collective is named before them, or by the file's
    own name."""
    named = _KIND.search(file.name)
    kind = named and _KINDS[named[1]]
    hosts: list[str] = []
    in_rows = False
    for number, line in enumerate(lines, 1):
        told, rank = _KIND.search(line), _RANK.match(line)
        if told:
            kind = _KINDS[told[1]]
        if rank:
            hosts = hosts if not in_rows else []  # ranks after rows are those of another output
            hosts.append(rank[1])
            in_rows = False
        fields = line.split()
        if not fields or not fields[0].isdigit() or len(fields) < 3 + 2 * _HALF:
            continue
        where, in_rows = f"{file}: line {number}", True
        if kind is None:
            raise DimsweepError(
                "which collective is this?",
                where=where,
                hint="a line before it, or the file's name, must have all_reduce, all_gather, "
                "reduce_scatter or alltoall in it",
            )
        if not hosts:
            raise DimsweepError(
                "among which ranks is this?",
                where=where,
                hint="keep the lines '#  Rank 0 ... on HOST device 0' that nccl-tests print first",
            )
        n, nodes = len(hosts), len(set(hosts))
        yield _timing(kind, n, nodes, fields[0], fields[-2 * _HALF], where)


def _timing(
    kind: CollectiveKind, ranks: str | int, nodes: str | int, n_bytes: str, us: str, where: str
) -> Timing:
    try:
        found = Timing(kind, int(ranks), int(nodes), int(float(n_bytes)), round(float(us) * 1e6))
    except (ValueError, OverflowError, TypeError) as error:  # no number, an endless one, or none
        raise DimsweepError(f"a number cannot be read: {error}", where=where) from error
    if found.ranks < 2 or found.nodes < 1 or found.ranks % found.nodes:
        raise DimsweepError(
            f"{found.ranks} GPUs on {found.nodes} nodes are no group of equal nodes", where=where
        )
    if found.n_bytes < 1 or found.duration < 1:
        raise DimsweepError(f"{n_bytes} bytes in {us} us is no timing", where=where)
    return found
