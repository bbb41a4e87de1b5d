"""Compilation of a model's steps to operators: consecutive kernels become one operator."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Kernel,
    Operator,
    Receive,
    Section,
    Send,
    Stamp,
    StampedGraph,
    Work,
)
from dimsweep.engine.workload.models.model import AccessStep, CollectiveStep, Step, WaitStep


class Item(NamedTuple):
    """An operator without its place in a graph; ``work`` None: an item that only waits.

    A waiting item waits for all items with its ``label``. An item with ``follows`` also waits for
    the items with that label.
    """

    name: str
    work: Compute | Access | Collective | None
    label: str = ""
    follows: str = ""


def compile_steps(steps: Iterable[Step], apart: str = "") -> list[Item]:
    """Return the items of ``steps``; consecutive kernels become one item.

    With ``apart``, a name, collectives get separate communicators of that name. So they do not wait
    for the collectives of a concurrent pass.
    """
    items: list[Item] = []
    kernels: list[Kernel] = []

    def flush() -> None:
        if kernels:
            items.append(_computation(tuple(kernels)))
            kernels.clear()

    for step in steps:
        if isinstance(step, Kernel):
            kernels.append(step)
            continue
        flush()
        if isinstance(step, WaitStep):
            items.append(Item("", None, step.label))
        elif isinstance(step, AccessStep):
            access = Access(step.n_bytes, step.store, step.axis, step.shared)
            items.append(Item(_name(step), access, step.label))
        else:
            items.append(_collective(step, apart))
    flush()
    return items


def _name(step: AccessStep) -> str:
    name = "store" if step.store else "load"
    if not step.axis or step.shared:
        return name
    return f"{'reduce and' if step.store else 'gather and'} {name} {step.axis}"


# Layers and buckets of gradients repeat: equal works are one object, which is checked and timed
# once.
@lru_cache(maxsize=4096)
def _computation(kernels: tuple[Kernel, ...]) -> Item:
    return Item(kernels[0].name, Compute(kernels=kernels))


@lru_cache(maxsize=4096)
def _collective(step: CollectiveStep, apart: str) -> Item:
    stream = f"{step.axis} {apart}" if apart else ""
    work = Collective(step.kind, step.n_bytes, step.axis, stream)
    return Item(f"{step.kind} {step.axis}", work, step.label, step.follows)


def split_overlapped(steps: Iterable[Step], overlap: float) -> Iterator[Step]:
    """Yield ``steps`` with only a share ``overlap`` (0 to 1) of collectives' bytes overlapped.

    It applies to collectives that the pass waits for later, for each kind and axis: the first bytes
    overlap, and the last are moved when the pass waits for them, while nothing else runs.

    Kernels next to a collective are slower, since it takes cores and memory bandwidth from them: by
    18.9 % on average over GPUs, and up to 40 % ("Characterizing Compute-Communication Overlap in
    GPU-Accelerated Distributed Deep Learning", arXiv 2507.03114, 2025). Over a pass this equals a
    part of the collectives that nothing overlaps. At most one collective of each kind is cut in
    two, and pays its latency twice. A communicator runs its collectives in the order of issue, so
    the late ones are the last ones.
    """
    if overlap == 1:
        yield from steps
        return
    own = list(steps)
    beside = _find_awaited(own)
    left = defaultdict[object, float](float)
    for each in beside.values():
        left[each.kind, each.axis] += each.n_bytes * (1 - overlap)
    late: dict[int, float] = {}
    for place, each in reversed(beside.items()):
        late[place] = min(each.n_bytes, left[each.kind, each.axis])
        left[each.kind, each.axis] -= late[place]
    waiting = defaultdict[str, list[Step]](list)
    for place, step in enumerate(own):
        if not late.get(place):
            yield step
            if isinstance(step, WaitStep):
                yield from waiting.pop(step.label, ())
            continue
        cut = beside[place]
        waiting[cut.label].append(cut._replace(n_bytes=late[place], label=""))
        if late[place] < cut.n_bytes:
            yield cut._replace(n_bytes=cut.n_bytes - late[place])


def _find_awaited(steps: Sequence[Step]) -> dict[int, CollectiveStep]:
    """Return, by index, the collectives that a later wait ends and no collective follows."""
    followed = {step.follows for step in steps if isinstance(step, CollectiveStep)}
    labels, found = set[str](), dict[int, CollectiveStep]()
    for place in reversed(range(len(steps))):
        step = steps[place]
        if isinstance(step, WaitStep):
            labels.add(step.label)
        elif isinstance(step, CollectiveStep) and step.label in labels - followed:
            found[place] = step
    return dict(sorted(found.items()))


_Before = (
    int | str | None
)  # an operator of a template, the operators with a label, or the last ones


@dataclass(frozen=True)
class _Template:
    """Operators compiled from items, with indices relative to the first operator."""

    operators: tuple[Operator, ...]
    outside: tuple[tuple[int, tuple[_Before, ...]], ...]
    last: tuple[_Before, ...]
    waited: tuple[str, ...]
    pending: dict[str, list[int]]

    @classmethod
    def from_items(cls, items: Sequence[Item]) -> Self:
        operators: list[Operator] = []
        outside: list[tuple[int, tuple[_Before, ...]]] = []
        last: tuple[_Before, ...] = (None,)
        waited: dict[str, None] = {}
        pending: dict[str, list[int]] = {}

        def pop(label: str) -> tuple[_Before, ...]:
            before = () if label in waited else (label,)
            waited[label] = None
            return (*before, *pending.pop(label, ()))

        for name, work, label, follows in items:
            if work is None:
                last = (*last, *pop(label))
                continue
            after = (*last, *pop(follows)) if follows else last
            node = len(operators)
            inside = sorted({before for before in after if isinstance(before, int)})
            operators.append(Operator(name, work, tuple(inside)))
            if len(inside) < len(after):
                outside.append((node, after))
            if label:
                pending.setdefault(label, []).append(node)
            else:
                last = (node,)
        return cls(tuple(operators), tuple(outside), last, tuple(waited), pending)


class RankGraph:
    """Builder of one rank's graph in program order; equal lists of items become stamps.

    Lists of items are compared by identity. The work of a micro-batch has its ``number``, which
    replaces ``{}`` in names; the tags of consecutive micro-batches differ by ``tags``.
    """

    def __init__(self, tags: int = 0) -> None:
        self._tags = tags
        self._sections: list[Section] = []
        self._stamps: list[Stamp] = []  # of the next section
        self._n = 0  # operators
        self._last: tuple[int, ...] = ()
        self._pending: dict[str, list[int]] = {}
        self._waited: set[str] = set()  # labels that were waited for
        self._templates: dict[int, tuple[Sequence[Item], _Template]] = {}
        self._messages: dict[tuple[str, Work], tuple[Operator, ...]] = {}

    def repeat(self, part: Callable[[int], None], times: int, step: int) -> None:
        """Call ``part`` with 0 to ``times`` - 1 to add operators; micro-batches grow by ``step``.

        Once a repetition depends on operators at the same distance as the one before, all later
        ones do, too: it becomes a section that covers all remaining repetitions.
        """
        for time in range(times):
            start, n_stamps, left = self._n, len(self._stamps), times - 1 - time
            last, pending = self._last, {label: (*of,) for label, of in self._pending.items()}
            self._waited = set()
            part(time)
            every = self._n - start
            moved = {label: _shift(pending.get(label, ()), every) for label in self._waited}
            own = {label: (*self._pending.get(label, ()),) for label in self._waited}
            if left and self._last == _shift(last, every) and own == moved:
                self._sections.append(Section(tuple(self._stamps[:n_stamps])))
                self._sections.append(Section(tuple(self._stamps[n_stamps:]), left + 1, step))
                self._stamps = []
                self._skip_repeats(every, left, {label: len(of) for label, of in pending.items()})
                return

    def _skip_repeats(self, every: int, times: int, known: dict[str, int]) -> None:
        """Account for ``times`` further repetitions of ``every`` operators without adding them.

        ``known`` is the number of earlier operators of each label.
        """
        self._n += times * every
        self._last = _shift(self._last, times * every)
        for label, nodes in self._pending.items():
            if label in self._waited:
                nodes[:] = _shift(nodes, times * every)
                continue
            new = nodes[known.get(label, 0) :]
            for time in range(1, times + 1):
                nodes += _shift(new, time * every)

    def run(self, prefix: str, items: Sequence[Item], number: int = 0) -> None:
        """Add the operators of ``items`` after all earlier operators, with ``prefix`` to names."""
        if id(items) not in self._templates:
            self._templates[id(items)] = items, _Template.from_items(items)
        template = self._templates[id(items)][1]
        before: dict[_Before, tuple[int, ...]] = {None: self._last}
        for label in template.waited:
            self._waited.add(label)
            before[label] = tuple(self._pending.pop(label, ()))
        outside = [
            (number, tuple(sorted({place for b in after for place in before.get(b, ())})))
            for number, after in template.outside
        ]
        start = self._stamp(prefix, template.operators, outside, number)
        for label, nodes in template.pending.items():
            self._pending.setdefault(label, []).extend(start + node for node in nodes)
        last = (before.get(b, (start + b,) if isinstance(b, int) else ()) for b in template.last)
        self._last = tuple(itertools.chain.from_iterable(last))

    def _stamp(
        self,
        prefix: str,
        operators: tuple[Operator, ...],
        outside: Iterable[tuple[int, tuple[int, ...]]],
        number: int,
    ) -> int:
        """Add a copy of ``operators`` and return the index of its first operator.

        ``outside`` lists dependencies on earlier operators.
        """
        start = self._n
        if operators:
            waiting = tuple((place, after) for place, after in outside if after)
            self._stamps.append(Stamp(operators, prefix, start, waiting, number, self._tags))
            self._n += len(operators)
        return start

    def _add(self, name: str, work: Work, number: int) -> int:
        operators = self._messages.setdefault((name, work), (Operator("", work),))
        return self._stamp(name, operators, [(0, tuple(sorted(set(self._last))))], number)

    def run_concurrently(self, *parts: Callable[[], None]) -> None:
        """Add the operators of several ``parts``, each after all earlier operators.

        Later operators wait for all parts.
        """
        start: tuple[int, ...] = self._last
        ends: list[int] = []
        for part in parts:
            self._last = start
            part()
            ends += self._last
        self._last = tuple(dict.fromkeys(ends))

    def send(self, name: str, message: Send, number: int = 0, *, wait: bool = False) -> None:
        """Add a send; the next operators overlap it, or with ``wait`` wait for it."""
        node = self._add(name, message, number)
        if wait:
            self._last = (node,)

    def receive(self, name: str, message: Receive, number: int = 0) -> None:
        """Add the receiving of a message; the next operators wait for it."""
        self._last = (*self._last, self._add(name, message, number))

    def build(self) -> StampedGraph:
        """Return the graph of all added operators."""
        return StampedGraph([*self._sections, Section(tuple(self._stamps))])


def _shift(places: Iterable[int], by: int) -> tuple[int, ...]:
    return tuple(place + by for place in places)
