"""GOAL: schedules of sends, receives and calculations, one for each rank.

The text of Hoefler, Siebert and Lumsdaine's Group Operation Assembly Language (ICPP 2009), as
spcl/LogGOPSim's Schedgen and spcl/atlahs write it and ``txt2bin`` reads it:

    num_ranks 2
    rank 0 {
    l1: calc 100 cpu 0              // ns
    l2: send 10b to 1 tag 0
    l2 requires l1                  // it starts when the other has ended
    }
    rank 1 {
    l1: recv 10b from 0 tag 0
    l2: calc 50
    l2 irequires l1                 // it may start when the other has started
    }
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import Code, DimsweepError
from dimsweep.engine.formats.reading import read_text, whole_number
from dimsweep.engine.topology.coordinates import offset_between
from dimsweep.engine.workload.graph import Compute, Operator, Receive, Send, Work, Workload

_MOST_RANKS, _MOST_BYTES, _MOST_NS = 1 << 20, 1 << 50, 10**15
_MOST = 1 << 32  # of a tag; of a CPU or NIC
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = "[a-zA-Z][a-zA-Z0-9_]*"
_STATEMENT = re.compile(
    rf"(?P<ranks>num_ranks)\s+(?P<n>\d+)|rank\s+(?P<rank>\d+)\s*\{{|(?P<end>\}})"
    rf"|(?P<one>{_NAME})\s+(?P<verb>i?requires)\s+(?P<other>{_NAME})"
    rf"|(?:(?P<label>{_NAME})\s*:\s*)?(?:calc\s+(?P<ns>\d+)"
    r"|(?P<kind>send|recv)\s+(?P<bytes>\d+)\s*b\s+(?:to|from)\s+(?P<peer>-?\d+)"
    r"(?:\s+tag\s+(?P<tag>-?\d+))?)(?:\s+cpu\s+(?P<cpu>\d+))?(?:\s+nic\s+(?P<nic>\d+))?"
)


class _Message(NamedTuple):
    """A send or receive of a schedule: its operator, its index at the rank, its place in errors."""

    operator: int
    number: int
    n_bytes: int
    where: str


@dataclass
class _Rank:
    """The operators of one rank of a schedule, and the dependencies between them."""

    names: list[str] = field(default_factory=list)
    works: list[Work | None] = field(default_factory=list)  # None: a message, known at the end
    n_messages: int = 0
    label: dict[str, int] = field(default_factory=dict)
    ended: dict[int, list[int]] = field(default_factory=dict)
    started: dict[int, list[int]] = field(default_factory=dict)

    def operators(self, rank: int) -> Iterator[Operator]:
        known: dict[int, frozenset[int]] = {}
        for i, (name, work) in enumerate(zip(self.names, self.works, strict=True)):
            assert work is not None
            yield Operator(f"rank {rank} {name}", work, tuple(sorted(self._dependencies(i, known))))

    def _dependencies(self, first: int, known: dict[int, frozenset[int]]) -> frozenset[int]:
        """Return the operators that must end before operator ``first`` may start.

        They are the operators that it ``requires``, and those that the operators in its
        ``irequires`` wait for.
        """
        path = [first]
        while path:
            left = [each for each in self.started.get(path[-1], ()) if each not in known]
            if left and left[0] in path:
                raise DimsweepError(
                    f"operators wait for one another: {self.names[left[0]]}", code="stalled"
                )
            if left:
                path.append(left[0])
                continue
            i = path.pop()
            before = (known[each] for each in self.started.get(i, ()))
            known[i] = frozenset(self.ended.get(i, ())).union(*before)
        return known[first]


def read_goal(path: Path, sizes: Sequence[int], name: str) -> Workload:
    """Return the workload of a GOAL file, for a topology of ``sizes`` NPUs in each dimension.

    Calculations take nanoseconds: CPU 0 is the NPU, and any other CPU is the host, which works
    concurrently.  The k-th send to a rank with a tag is received by the k-th receive there.
    Overheads and gaps of LogGOPS are not part of a schedule: the network determines how long
    messages take, and which of a rank's ports they use.

    Raises :class:`DimsweepError` naming file and line for anything malformed, messages without a
    partner, and receives of any source or tag.
    """
    schedule = _Schedule(path)
    n = math.prod(sizes)
    if schedule.n_ranks != n:
        problem = f"the schedule has {schedule.n_ranks:,} ranks, but the topology has {n:,} NPUs"
        hint = f"set topology.shape='Switch({schedule.n_ranks})'"
        raise DimsweepError(problem, where=str(path), hint=hint, code="mismatch")
    schedule.match(sizes)
    try:
        graphs = [tuple(rank.operators(i)) for i, rank in enumerate(schedule.ranks)]
    except DimsweepError as error:
        raise error.in_place(path) from None
    return Workload(tuple(graphs), {}, np.arange(n), name=name)


class _Schedule:
    """A GOAL schedule while it is read; :meth:`match` matches its messages."""

    def __init__(self, path: Path) -> None:
        self._path, self.n_ranks = path, 0
        self.ranks: list[_Rank] = []
        self._rank: int | None = None
        self._read = set[int]()
        self._sent: dict[tuple[int, int, int], list[_Message]] = {}
        self._received: dict[tuple[int, int, int], list[_Message]] = {}
        text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), read_text(path, "schedule"))
        for number, line in enumerate(text.splitlines(), 1):
            self._where = f"{path}: line {number}"
            for part in line.replace("{", "{;").replace("}", ";}").split(";"):
                if part.strip():
                    self._take(part.strip())
        if not self.n_ranks:
            raise DimsweepError(
                "num_ranks is missing", where=str(path), hint="num_ranks 2", code="missing"
            )
        if self._rank is not None:
            raise DimsweepError(
                f"rank {self._rank} is not closed",
                where=str(path),
                hint="end it with }",
                code="bad-syntax",
            )

    def _error(self, problem: str, hint: str = "", code: Code = "bad-syntax") -> DimsweepError:
        return DimsweepError(problem, where=self._where, hint=hint, code=code)

    def _take(self, text: str) -> None:
        found = _STATEMENT.fullmatch(text)
        if not found:
            hint = "such as l1: send 10b to 1 tag 0, l1: recv 10b from 1 tag 0, l1: calc 100, "
            raise self._error(f"{text[:60]!r} is not a statement", f"{hint}l2 requires l1")
        if found["ranks"]:
            if self.n_ranks:
                raise self._error("num_ranks occurs twice", code="duplicate")
            self.n_ranks = whole_number(found["n"], "num_ranks", self._where, 1, _MOST_RANKS)
            self.ranks = [_Rank() for _ in range(self.n_ranks)]
        elif found["rank"]:
            if self._rank is not None:
                raise self._error(f"rank {self._rank} is not closed", "end it with }")
            if not self.n_ranks:
                raise self._error("a rank before num_ranks", "begin with num_ranks N")
            self._rank = whole_number(found["rank"], "the rank", self._where, 0, self.n_ranks - 1)
            if self._rank in self._read:
                raise self._error(f"rank {self._rank} occurs twice", code="duplicate")
            self._read.add(self._rank)
        elif self._rank is None:
            raise self._error(
                f"{text[:60]!r} is outside of a rank", "begin with num_ranks N, then rank 0 {"
            )
        elif found["end"]:
            self._rank = None
        elif found["verb"]:
            assert self._rank is not None
            rank = self.ranks[self._rank]
            for name in ("one", "other"):
                if found[name] not in rank.label:
                    raise self._error(
                        f"unknown label {found[name]!r}",
                        "use the label of an operation above",
                        "unknown-name",
                    )
            waits = rank.ended if found["verb"] == "requires" else rank.started
            one, other = rank.label[found["one"]], rank.label[found["other"]]
            waits.setdefault(one, []).append(other)
        else:
            self._add(found)

    def _add(self, found: re.Match[str]) -> None:
        assert self._rank is not None
        rank, number = self.ranks[self._rank], len(self.ranks[self._rank].names)
        label = found["label"] or f"operation {number}"
        if label in rank.label:
            raise self._error(f"the label {label!r} occurs twice", code="duplicate")
        if found["label"]:
            rank.label[label] = number
        cpu = whole_number(found["cpu"] or "0", "the CPU", self._where, 0, _MOST)
        rank.names.append(label)
        rank.works.append(None)
        if found["ns"]:
            duration = 1000 * whole_number(found["ns"], "the time in ns", self._where, 0, _MOST_NS)
            rank.works[-1] = (
                Compute(duration=duration, on_host=True, stream=f"cpu {cpu}")
                if cpu
                else Compute(duration=duration)
            )
        else:
            tag, peer = found["tag"] or "0", found["peer"]
            if "-1" in (tag, peer):
                raise self._error(
                    "receives from any source or with any tag are not supported",
                    "give the source and the tag of the message",
                    "unsupported",
                )
            n_bytes = whole_number(found["bytes"], "the size in bytes", self._where, 0, _MOST_BYTES)
            other = whole_number(peer, "the rank", self._where, 0, self.n_ranks - 1)
            known = whole_number(tag, "the tag", self._where, 0, _MOST)
            if other == self._rank:
                raise self._error(f"rank {self._rank} sends to itself, or receives from itself")
            is_send = found["kind"] == "send"
            ends = (self._rank, other, known) if is_send else (other, self._rank, known)
            messages = self._sent if is_send else self._received
            of_rank = self.ranks[self._rank]
            messages.setdefault(ends, []).append(
                _Message(number, of_rank.n_messages, n_bytes, self._where)
            )
            of_rank.n_messages += 1

    def match(self, sizes: Sequence[int]) -> None:
        """Match each send with its receive, and give each pair a separate tag."""
        tag = 0
        for source, target, known in dict.fromkeys((*self._sent, *self._received)):
            ends = source, target, known
            sent, received = self._sent.get(ends, []), self._received.get(ends, [])
            n = min(len(sent), len(received))
            if unmatched := (sent[n:] or received[n:]):
                problem = f"{len(sent)} sends from {source} to {target} with tag {known}, but "
                raise DimsweepError(
                    f"{problem}{len(received)} receives", where=unmatched[0].where, code="mismatch"
                )
            there = offset_between(source, target, sizes)
            back = offset_between(target, source, sizes)
            for one, other in zip(sent, received, strict=True):
                if other.n_bytes < one.n_bytes:
                    problem = (
                        f"{one.n_bytes} bytes are sent ({one.where}), but {other.n_bytes} received"
                    )
                    raise DimsweepError(problem, where=other.where, code="mismatch")
                stream = f"send {one.number}"
                self.ranks[source].works[one.operator] = Send(one.n_bytes, there, tag, stream)
                self.ranks[target].works[other.operator] = Receive(back, tag)
                tag += 1
