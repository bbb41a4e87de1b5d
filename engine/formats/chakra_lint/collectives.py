"""Collectives whose members disagree, or wait for each other for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from engine.formats.astra_sim.nodes import Node
from engine.formats.chakra.lint import Finding
from engine.formats.chakra_lint.messages import Fault, Place
from engine.formats.chakra_stats import collective_name


class _Meeting(NamedTuple):
    """A collective that a rank takes part in."""

    collective: int
    size: int
    place: Place

    @property
    def content(self) -> tuple[int, int]:
        return self.collective, self.size

    def __str__(self) -> str:
        return f"{collective_name(self.collective)} of {self.size:,} B"


class Collectives:
    """The collectives of the ranks; ``groups`` lists those of each communicator group.

    ``n`` is the number of ranks, none if there is a single trace and nothing to compare it with;
    ``where`` names a node.
    """

    def __init__(
        self, groups: Mapping[str, Sequence[int]], n: int | None, where: Callable[[Place], str]
    ) -> None:
        self._groups, self._n, self._where = groups, n, where
        self._meetings: dict[str, dict[int, list[_Meeting]]] = {}  # by group and rank
        self._order: dict[int, list[tuple[str, int]]] = {}  # by rank: group, and the how-manieth
        self._missing: set[str] = set()

    def add(self, place: Place, node: Node) -> Fault | None:
        """Note a collective, in the order of issue; or what is wrong with it."""
        name = "" if node.group == "0" else node.group
        if not name and not all(node.involved):
            return None  # which ranks these are, the topology decides
        if name and name not in self._groups:
            if name in self._missing:
                return None  # said of its first node
            self._missing.add(name)
            known = ", ".join(list(self._groups)[:8]) or "none; give a file of them"
            return f"there is no communicator group {name!r}", f"groups: {known}"
        rank = place[0]
        if self._n is None:
            return None
        if name and rank not in self._groups[name]:
            return f"rank {rank} is no member of its group {name!r}", "add it, or name another"
        meetings = self._meetings.setdefault(name, {}).setdefault(rank, [])
        self._order.setdefault(rank, []).append((name, len(meetings)))
        meetings.append(_Meeting(node.collective, node.size, place))
        return None

    def disagreements(self) -> Iterator[Finding]:
        """Collectives of which members have another type, size or order, or none at all."""
        assert self._n is not None
        for name, by_rank in self._meetings.items():
            members = sorted(self._groups[name]) if name else range(self._n)
            absent = [rank for rank in members if rank >= self._n]
            if absent:
                first = next(iter(by_rank.values()))[0]
                what = f"{_group(name)} has rank {absent[0]}, of which there is no trace"
                fix = "write its trace, or take it out of the group"
                yield Finding(self._where(first.place), what, fix)
            there = {rank: by_rank.get(rank, []) for rank in members if rank < self._n}
            yield from self._disagree(_group(name), there)

    def _disagree(self, group: str, by_rank: Mapping[int, Sequence[_Meeting]]) -> Iterator[Finding]:
        """Every rank that does not do as most do, and where it first differs."""
        contents = {rank: tuple(m.content for m in meetings) for rank, meetings in by_rank.items()}
        usual, count = Counter(contents.values()).most_common(1)[0]
        model = next(rank for rank, content in contents.items() if content == usual)
        others = f"rank {model}" + (f" and {count - 1} more" if count > 1 else "")
        for rank, content in contents.items():
            if content == usual:
                continue
            pairs = enumerate(zip_longest(by_rank[rank], by_rank[model]))
            k, (here, there) = next(
                (k, (a, b)) for k, (a, b) in pairs if not (a and b and a.content == b.content)
            )
            known = here or there
            assert known is not None
            what = (
                f"collective number {k} over {group} is {here or 'none'} on rank {rank}, "
                f"{there or 'none'} on {others}"
            )
            again = "; they do, in another order" if sorted(content) == sorted(usual) else ""
            fix = f"members must run the same collectives in the same order{again}"
            yield Finding(self._where(known.place), what, fix)

    def crossed(self) -> Iterator[Finding]:
        """Collectives of several groups that ranks issue in orders which cannot all be kept.

        With one communication at a time, as in ASTRA-sim, such ranks wait for each other for ever.
        """
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
        stuck = {rank for rank, k in at.items() if k < len(self._order[rank])}
        for rank in sorted(stuck)[:1]:
            name, k = meeting = self._order[rank][at[rank]]
            other = min(r for r in stuck if meeting in self._order[r][at[r] + 1 :])
            before = self._order[other][at[other]]
            yield Finding(
                self._where(self._meetings[name][rank][k].place),
                f"rank {rank} runs collective number {k} over {_group(name)} first, rank {other} "
                f"number {before[1]} over {_group(before[0])}: {len(stuck)} ranks wait for each "
                "other if each communicates once at a time",
                "give ranks one order (lower ids first), or run it with a stream for each group",
            )


def _group(name: str) -> str:
    return f"group {name!r}" if name else "all ranks"
