"""The output of nccl-tests, and tables of such measurements, as :class:`engine.cluster.Timings`.

nccl-tests and rccl-tests (github.com/NVIDIA/nccl-tests, github.com/ROCm/rccl-tests) print a line
for each rank, such as ``#  Rank  0 Group  0 Pid 3141 on node-1 device  0 [0x18] NVIDIA H100``, and
then a row for each size: bytes, count, type, operation, root (older versions have none), and twice
(out of place, in place) time [us], algorithm and bus bandwidth [GB/s], and errors.  The time out of
place is taken, if there is one.  Several outputs may follow one another in a file, and each line
may have a prefix, such as ``0: `` of srun or ``[1,0]<stdout>:`` of mpirun.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dimsweep.engine.cluster.library import Timing, Timings
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_text
from dimsweep.engine.formats.table import delimiter_of, first_line, read_table
from dimsweep.engine.kinds import CollectiveKind

_COLUMNS = ("op", "gpus", "nodes", "bytes", "time_us")
_KINDS = {str(kind): kind for kind in CollectiveKind} | {"alltoall": CollectiveKind.ALL_TO_ALL}
# Tests of nccl-tests and rccl-tests by their names, those that begin with another's name first.
_TEST = re.compile(
    "(all_reduce_bias|all_reduce_group|all_reduce|reduce_scatter|all_gather|alltoallv2|alltoallv|"
    "alltoall|broadcast|reduce|gather|scatter|sendrecv|hypercube|bisection)_perf"
)
_BARE = re.compile(r"(all_reduce|reduce_scatter|all_gather|alltoall)(?!v|_bias|_group)")
_CONCLUDED = "test concluded"  # "# Collective test concluded: all_reduce_perf"
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s)?.*?\bon\s+(\S+)\s+device\b")
_ROW = re.compile(
    r"(?:^|(?<=[\s:>|\]]))(\d+)\s+\d+\s+[a-z]\w*(?:\s+[a-z]\w*)?\s+(-?\d.*)$", re.ASCII
)
_TIMESTAMP = re.compile(r"\s\d{4}-\d\d-\d\d[ T].*$")  # of nccl-tests -T
_HALF = 4  # columns of the times out of place, and of those in place


def read_nccl_tests(file: Path) -> Timings:
    """Return the timings of a file: the text that nccl-tests print, or a CSV file with the columns
    op, gpus, nodes, bytes, time_us, and perhaps others.

    Rows of 0 bytes are left out.  Rows of other tests, such as broadcast, and rows with wrong
    results are left out and counted in ``left_out``.  Raises :class:`DimsweepError` naming file and
    line for text that does not say which collective ran among which ranks, for rows of several
    kinds of GPU (a column gpu), and for a file without rows.
    """
    text = read_text(file, "file of measurements")
    output = _Output(file)
    if _is_json(text):
        timings = tuple(output.timings_of_json())
    else:
        timings = tuple(_table(file) if _is_table(text) else output.timings(text.splitlines()))
    left_out = ", ".join(f"{n} row{'s' * (n > 1)} {which}" for which, n in output.left_out.items())
    if not timings:
        raise DimsweepError(
            "no collective was measured in it" + (f", only {left_out}" if left_out else ""),
            where=str(file),
            hint="give what nccl-tests print, or a CSV file with the columns "
            + ", ".join(_COLUMNS),
        )
    return Timings(timings, file.name, left_out=left_out)


def is_nccl_tests(text: str) -> bool:
    """Return whether a text has ranks or rows that nccl-tests print, or is their JSON."""
    if _is_json(text):
        return True
    return any(_RANK.search(line) or _Row.of(line) for line in text.splitlines())


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and '"results"' in text and '"out_of_place"' in text


def _is_table(text: str) -> bool:
    try:
        head = next(csv.reader([first_line(text)], delimiter=delimiter_of(text)), [])
    except csv.Error:
        return False
    return set(_COLUMNS) <= {name.strip().lower() for name in head}


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
        if row["bytes"] != "0":
            yield _timing(kind, row["gpus"], row["nodes"], row["bytes"], row["time_us"], where)


class _Row(NamedTuple):
    """A row: the texts of the columns that are read."""

    n_bytes: str
    us: str
    wrong: str

    @classmethod
    def of(cls, line: str) -> "_Row | None":
        """Return the row in a line, or None."""
        found = _ROW.search(line)
        values = _TIMESTAMP.sub("", found[2]).split() if found else []
        if found is None or len(values) not in (_HALF, _HALF + 1, 2 * _HALF, 2 * _HALF + 1):
            return None
        values = values[len(values) % _HALF :]  # without the root
        if values[0] in ("-", "N/A"):  # not measured out of place
            values = values[_HALF:] or values
        return cls(found[1], values[0], values[3])

    def is_wrong(self) -> bool:
        """Return whether results were wrong; older versions print a relative error below 1."""
        try:
            return float(self.wrong) >= 1
        except ValueError:
            return False


class _Output:
    """The outputs of nccl-tests in a file, read line by line."""

    def __init__(self, file: Path) -> None:
        self.left_out = Counter[str]()
        self._file = file
        self._hosts: dict[str, str] = {}  # by rank

    def timings(self, lines: Iterable[str]) -> Iterator[Timing]:
        """Yield the timings of rows, which follow the ranks that they are of.  The test is named
        before them, or by the file's name."""
        of_file = test = _test_in(self._file.name)
        said, in_rows, seen = None, False, False
        for number, line in enumerate(lines, 1):
            where = f"{self._file}: line {number}"
            if rank := _RANK.search(line):
                if in_rows:  # another output begins
                    self._hosts, in_rows, test = {}, False, of_file
                self._add(rank[1], rank[2], rank[3], where)
            elif row := _Row.of(line):
                test, said, in_rows = said or test, None, True
                if test is None and not seen:
                    raise _unnamed(where)
                seen = True
                if row.n_bytes != "0" and self._keeps(row, test):
                    yield self._timing(_KINDS[str(test)], row, where)
            elif _CONCLUDED not in line:
                said = _test_in(line) or said

    def timings_of_json(self) -> Iterator[Timing]:
        """Yield the timings of the file that nccl-tests write with ``--output_file``."""
        from dimsweep.engine.formats.nccl_json import read_results  # pydantic, which few runs need

        results = read_results(self._file)
        test = _test_in(results.program) or _test_in(self._file.name)
        for device in results.devices:
            self._add(str(device.rank), str(device.group), device.hostname, str(self._file))
        for number, result in enumerate(results.rows):
            row, where = _Row(*map(str, result)), f"{self._file}: results[{number}]"
            if test is None:
                raise _unnamed(where)
            if row.n_bytes != "0" and result.us is not None and self._keeps(row, test):
                yield self._timing(_KINDS[test], row, where)

    def _add(self, number: str, group: str | None, host: str, where: str) -> None:
        if group not in (None, "0"):
            raise DimsweepError(
                "several groups of ranks ran at once", where=where, hint="run one group of ranks"
            )
        if number in self._hosts:  # an output without rows came before
            self._hosts = {}
        self._hosts[number] = host

    def _keeps(self, row: _Row, test: str | None) -> bool:
        """Return whether a row is a measurement of a known collective; count it if not."""
        if test not in _KINDS:
            self.left_out[f"of {test or 'a test without a name'}"] += 1
        elif row.is_wrong():
            self.left_out["with wrong results"] += 1
        else:
            return True
        return False

    def _timing(self, kind: CollectiveKind, row: _Row, where: str) -> Timing:
        if not self._hosts:
            raise DimsweepError(
                "among which ranks is this?",
                where=where,
                hint="keep the lines '#  Rank 0 ... on HOST device 0' that nccl-tests print first",
            )
        hosts = self._hosts.values()
        return _timing(kind, len(hosts), len({*hosts}), row.n_bytes, row.us, where)


def _test_in(text: str) -> str | None:
    """Return the test or collective that a text names last, or None."""
    found = _TEST.findall(text) or _BARE.findall(text)
    return found[-1] if found else None


def _unnamed(where: str) -> DimsweepError:
    return DimsweepError(
        "which collective is this?",
        where=where,
        hint="a line before it, or the file's name, must have all_reduce, all_gather, "
        "reduce_scatter or alltoall in it",
    )


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
