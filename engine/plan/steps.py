"""From steps to operators: kernels that follow one another become one operator."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.model.steps import AccessStep, Step, WaitStep
from engine.workload.graph import (
    Access,
    Collective,
    Compute,
    GraphBuilder,
    Kernel,
    Operator,
    Receive,
    Send,
)


class Item(NamedTuple):
    """An operator to be; one with a ``label`` is waited for later, by an item without work.  It
    starts when what has the label ``follows`` is done, too."""

    name: str
    work: Compute | Access | Collective | None
    label: str = ""
    follows: str = ""


def compile_steps(steps: Iterable[Step]) -> list[Item]:
    """Items of ``steps``; each run of kernels is one of them."""
    items: list[Item] = []
    kernels: list[Kernel] = []

    def flush() -> None:
        if kernels:
            items.append(Item(kernels[0].name, Compute(kernels=tuple(kernels))))
            kernels.clear()

    for step in steps:
        if isinstance(step, Kernel):
            kernels.append(step)
            continue
        if isinstance(step, WaitStep):
            flush()
            items.append(Item("", None, step.label))
        elif isinstance(step, AccessStep):
            flush()
            access = Access(step.n_bytes, step.store)
            items.append(Item("store" if step.store else "load", access, step.label))
        else:
            flush()
            work = Collective(step.kind, step.n_bytes, step.axis)
            name = f"{step.kind} {step.axis}"
            items.append(Item(name, work, step.label, step.follows))
    flush()
    return items


class RankGraph:
    """One rank's operators, in the order of its program."""

    def __init__(self) -> None:
        self._builder = GraphBuilder()
        self._last: tuple[int, ...] = ()
        self._pending: dict[str, list[int]] = {}

    def run(self, prefix: str, items: Sequence[Item]) -> None:
        """Run ``items`` after all that came before."""
        for name, work, label, follows in items:
            if work is None:
                self._last = (*self._last, *self._pending.pop(label, ()))
                continue
            after = (*self._last, *self._pending.pop(follows, ())) if follows else self._last
            node = self._builder.add(f"{prefix}{name}", work, after)
            if label:
                self._pending.setdefault(label, []).append(node)
            else:
                self._last = (node,)

    def send(self, name: str, message: Send, *, wait: bool = False) -> None:
        """Send beside what follows, or ``wait`` until the message has been sent."""
        node = self._builder.add(name, message, self._last)
        if wait:
            self._last = (node,)

    def receive(self, name: str, message: Receive) -> None:
        """Wait for a message; it may be under way already."""
        self._last = (*self._last, self._builder.add(name, message, self._last))

    def build(self) -> tuple[Operator, ...]:
        return self._builder.build()
