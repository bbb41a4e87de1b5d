"""Collectives whose members disagree, or wait for each other for ever."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from dimsweep.engine.formats.chakra import own
from dimsweep.engine.formats.chakra.lint.messages import Fault, Place
from dimsweep.engine.formats.chakra.lint.trace import Finding
from dimsweep.engine.formats.chakra.node import Node, involved_group
from dimsweep.engine.formats.chakra.stats import collective_name
from dimsweep.engine.formats.chakra.trace import Value
from dimsweep.engine.workload.coordinates import first_members


class _Meeting(NamedTuple):
    """A collective as one rank issues it."""

    collective: int
    size: int
    name: str
    place: Place

    @property
    def content(self) -> tuple[int, int]:
        return self.collective, self.size

    def __str__(self) -> str:
        return f"{collective_name(self.collective)} of {self.size:,} B"


class Collectives:
    """The collectives of the ranks; ``groups`` lists those of each communicator group.

    ``n`` is the number of ranks, none if there is a single trace and nothing to compare it with;
    ``sizes`` those of the dimensions, where the traces say them; ``where`` names a node.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[int]],
        n: int | None,
        sizes: tuple[int, ...] | None,
        where: Callable[[Place], str],
    ) -> None:
        self._groups, self._n, self._sizes, self._where = groups, n, sizes, where
        self._missing: set[str] = set()
        # By the name of the set of ranks that take part.
        self._members: dict[str, Sequence[int]] = {"all ranks": range(n or 0)}
        self._meetings: dict[str, dict[int, list[_Meeting]]] = {}  # and by rank
        # By rank: the group, and the number of the collective in it.
        self._order: dict[int, list[tuple[str, int]]] = {}
        self._first: dict[tuple[bool, ...], list[int]] = {}  # of every rank's sub-mesh
        self._shapes: dict[Value, tuple[int, ...]] = {}  # by the name that a trace of ours gives

    def add(self, place: Place, node: Node, name: Value) -> Fault | None:
        """Note a collective, in the order of issue; returns a fault if its group is wrong.

        ``name`` is the group's name in the workload, None in traces of other tools.
        """
        rank = place[0]
        fault = self._membership(rank, node.group) if node.group not in ("", "0") else None
        fault = fault or self._renamed(node, name)
        if fault:
            return fault
        over = self._over(rank, node)
        if self._n is None or over is None:
            return None
        meetings = self._meetings.setdefault(over, {}).setdefault(rank, [])
        self._order.setdefault(rank, []).append((over, len(meetings)))
        meetings.append(_Meeting(node.collective, node.size, node.name, place))
        return None

    def _membership(self, rank: int, name: str) -> Fault | None:
        if name not in self._groups:
            if name in self._missing:
                return None  # said of its first node
            self._missing.add(name)
            known = ", ".join(list(self._groups)[:8]) or "none; give a file of them"
            return f"there is no communicator group {name!r}", f"groups: {known}"
        if self._n is not None and rank not in self._groups[name]:
            return f"rank {rank} is no member of its group {name!r}", "add it, or name another"
        return None

    def _renamed(self, node: Node, name: Value) -> Fault | None:
        """Return a fault if the group called ``name`` has another shape than at an earlier node."""
        if name is None or node.group in self._missing:
            return None
        ranks = sorted(self._groups.get(node.group, ()))
        shape = tuple(rank - ranks[0] for rank in ranks) or node.involved
        if self._shapes.setdefault(name, shape) == shape:
            return None
        standard = f"pg_name {node.group!r}" if ranks else f"involved_dim {node.involved}"
        what = f"{own.GROUP} is {name!r}, but {standard} has another shape than before"
        return what, f"name a group of the former shape, or another {own.GROUP}"

    def _over(self, rank: int, node: Node) -> str | None:
        """The name of the set of ranks that take part; None if the set cannot be known."""
        if node.group in self._missing:
            return None
        if node.group not in ("", "0"):
            over = f"group {node.group!r}"
            self._members.setdefault(over, self._groups[node.group])
            return over
        if all(node.involved):
            return "all ranks"
        return self._sub_mesh(rank, node.involved) if self._sizes else None

    def _sub_mesh(self, rank: int, involved: tuple[bool, ...]) -> str:
        """The name of the rank's neighbours in the ``involved`` dimensions; notes their ranks."""
        sizes = self._sizes or ()
        if involved not in self._first:
            group = involved_group(involved, sizes)
            self._first[involved] = first_members(group, sizes).tolist()
        firsts = self._first[involved]
        dims = " ".join(str(d) for d, use in enumerate(involved) if use)
        over = f"dimensions {dims or 'none'} of rank {firsts[rank]}"
        if over not in self._members:
            self._members[over] = [r for r, first in enumerate(firsts) if first == firsts[rank]]
        return over

    def disagreements(self) -> Iterator[Finding]:
        """Collectives whose type, size or order differ between members, or that a member lacks."""
        n = self._n or 0
        for over, by_rank in self._meetings.items():
            members = sorted(self._members[over])
            absent = [rank for rank in members if rank >= n]
            if absent:
                first = next(iter(by_rank.values()))[0]
                what = f"{over} has rank {absent[0]}, of which there is no trace"
                fix = "write its trace, or take it out of the group"
                yield Finding(self._where(first.place), what, fix)
            there = {rank: by_rank.get(rank, []) for rank in members if rank < n}
            yield from self._disagree(over, there)

    def _disagree(self, over: str, by_rank: Mapping[int, Sequence[_Meeting]]) -> Iterator[Finding]:
        """A finding for each rank that differs from the majority, at its first difference."""
        contents = {rank: tuple(m.content for m in meetings) for rank, meetings in by_rank.items()}
        usual, count = Counter(contents.values()).most_common(1)[0]
        model = next(rank for rank, content in contents.items() if content == usual)
        others = f"rank {model}" + (f" and {count - 1} more" if count > 1 else "")
        for rank, content in contents.items():
            if content == usual:
                yield from self._swapped(over, rank, by_rank[rank], model, by_rank[model])
                continue
            pairs = enumerate(zip_longest(by_rank[rank], by_rank[model]))
            k, (here, there) = next(
                (k, (a, b)) for k, (a, b) in pairs if not (a and b and a.content == b.content)
            )
            known = here or there
            assert known is not None
            what = (
                f"collective number {k} over {over} is {here or 'none'} on rank {rank}, "
                f"{there or 'none'} on {others}"
            )
            again = "; they do, in another order" if sorted(content) == sorted(usual) else ""
            fix = f"members must run the same collectives in the same order{again}"
            if here and there:
                fix += f"; that of rank {model} is {self._where(there.place)}"
            yield Finding(self._where(known.place), what, fix)

    def _swapped(
        self, over: str, rank: int, here: Sequence[_Meeting], model: int, there: Sequence[_Meeting]
    ) -> Iterator[Finding]:
        """Equal collectives that two ranks issue in different orders, as their names tell."""
        names, others = [m.name for m in here], [m.name for m in there]
        if names == others or sorted(names) != sorted(others):
            return
        k, a, b = next(
            (k, *ab)
            for k, ab in enumerate(zip(here, there, strict=True))
            if ab[0].name != ab[1].name
        )
        yield Finding(
            self._where(a.place),
            f"collective number {k} over {over} is {a.name!r} on rank {rank}, {b.name!r} on rank "
            f"{model}: they issue the same ones in different orders",
            "members match by the order of issue, so these two would run as one; that of rank "
            f"{model} is {self._where(b.place)}",
        )

    def turns(self, stream_of: Callable[[Place], object]) -> list[list[list[Place]]]:
        """The collectives of each stream of a communicator, by member, in the order of issue."""
        found: dict[tuple[str, object], dict[int, list[Place]]] = {}
        for over, by_rank in self._meetings.items():
            for rank, meetings in by_rank.items():
                for meeting in meetings:
                    stream = found.setdefault((over, stream_of(meeting.place)), {})
                    stream.setdefault(rank, []).append(meeting.place)
        return [list(by_rank.values()) for by_rank in found.values()]

    def crossed(self) -> Iterator[Finding]:
        """Collectives of several groups that ranks issue in orders which cannot all be kept.

        With one communication at a time, as in ASTRA-sim, such ranks wait for each other for ever.
        """
        stuck = self._stuck()
        for rank in sorted(stuck)[:1]:
            over, k = meeting = self._order[rank][stuck[rank]]
            other = min(r for r in stuck if meeting in self._order[r][stuck[r] + 1 :])
            before = self._order[other][stuck[other]]
            yield Finding(
                self._where(self._meetings[over][rank][k].place),
                f"rank {rank} runs collective number {k} over {over} first, rank {other} "
                f"number {before[1]} over {before[0]}: {len(stuck)} ranks wait for each "
                "other if each communicates once at a time",
                "give ranks one order (lower ids first), or run it with a stream for each group",
            )

    def _stuck(self) -> dict[int, int]:
        """The ranks that cannot end if each runs one collective after the other, and where."""
        members = Counter(meeting for order in self._order.values() for meeting in order)
        at = dict.fromkeys(self._order, 0)
        arrived: dict[tuple[str, int], list[int]] = {}
        moving = list(self._order)
        while moving:
            rank = moving.pop()
            if at[rank] == len(self._order[rank]):
                continue
            meeting = self._order[rank][at[rank]]
            here = arrived.setdefault(meeting, [])
            here.append(rank)
            if len(here) == members[meeting]:
                for member in here:
                    at[member] += 1
                moving += here
        return {rank: k for rank, k in at.items() if k < len(self._order[rank])}
