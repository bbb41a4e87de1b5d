"""A rank's graph, stamped from items, is what building it operator by operator gives."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Operator,
    Receive,
    Send,
)
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models.model import CollectiveStep, Step, WaitStep
from dimsweep.engine.workload.plan.steps import Item, RankGraph, split_overlapped
from tests.support.examples import examples

MESSAGE, ANSWER = Send(1.0, (1,)), Receive((-1,))
LABELS = ["", "", "", "a", "b"]


class OneByOne:
    """The rules of RankGraph, with nothing shared."""

    def __init__(self) -> None:
        self.builder, self.last = GraphBuilder(), tuple[int, ...]()
        self.pending: dict[str, list[int]] = {}

    def run(self, prefix: str, items: Sequence[Item]) -> None:
        for name, work, label, follows in items:
            if work is None:
                self.last = (*self.last, *self.pending.pop(label, ()))
                continue
            after = (*self.last, *self.pending.pop(follows, ())) if follows else self.last
            node = self.builder.add(f"{prefix}{name}", work, after)
            if label:
                self.pending.setdefault(label, []).append(node)
            else:
                self.last = (node,)

    def message(self, *, wait: bool) -> None:
        sent = self.builder.add("send", MESSAGE, self.last)
        self.last = (sent,) if wait else self.last
        self.last = (*self.last, self.builder.add("receive", ANSWER, self.last))


@st.composite
def items(draw: st.DrawFn) -> list[Item]:
    found = []
    for i in range(draw(st.integers(0, 6))):
        label = draw(st.sampled_from(LABELS))
        if label and draw(st.booleans()):
            found.append(Item("", None, label))
            continue
        work = draw(
            st.sampled_from([Compute(duration=1), Collective(CollectiveKind.ALL_REDUCE, 1.0, "g")])
        )
        found.append(Item(f"operator {i}", work, label, draw(st.sampled_from(LABELS))))
    return found


@examples(60)
@given(st.lists(items(), min_size=1, max_size=3), st.data())
def test_stamped_as_built_one_by_one(parts: list[list[Item]], data: st.DataObject) -> None:
    graph, plain = RankGraph(), OneByOne()
    for i in range(data.draw(st.integers(0, 8))):
        part = data.draw(st.sampled_from(parts))
        graph.run(f"{i} ", part)
        plain.run(f"{i} ", part)
        if data.draw(st.booleans()):
            wait = data.draw(st.booleans())
            graph.send("send", MESSAGE, wait=wait)
            graph.receive("receive", ANSWER)
            plain.message(wait=wait)
    stamped, expected = graph.build(), plain.builder.build()
    assert [_sorted(operator) for operator in stamped] == list(expected)
    assert [_sorted(stamped[i]) for i in range(len(stamped))] == list(expected)
    assert len(stamped) == len(expected)


def _sorted(operator: Operator) -> Operator:
    return Operator(operator.name, operator.work, tuple(sorted(operator.after)))


KINDS, AXES = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER), ("data", "tensor")
EXTRA_ORIGINS = st.builds(
    CollectiveStep,
    st.sampled_from(KINDS),
    st.floats(1, 1e9),
    st.sampled_from(AXES),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["", "a", "load"]),
)
OTHERS = st.sampled_from(
    [Kernel("product", 1.0, 1.0), WaitStep("a"), CollectiveStep(KINDS[0], 1.0, "data")]
)


@given(st.lists(st.one_of(EXTRA_ORIGINS, OTHERS), max_size=12), st.floats(0.01, 1))
def test_a_share_of_what_a_pass_waits_for_goes_beside_it(steps: list[Step], overlap: float) -> None:
    """As many bytes of each kind over each axis as before, the last of which come when the pass
    waits for them, so at most one collective of each is cut in two; and all else is as it was."""
    found = list(split_overlapped(steps, overlap))
    followed = {step.follows for step in steps if isinstance(step, CollectiveStep)}
    cut = [
        step
        for place, step in enumerate(steps)
        if isinstance(step, CollectiveStep)
        and step.label
        and WaitStep(step.label) in steps[place:]
        and step.label not in followed
    ]
    assert [step for step in found if step in steps and step not in cut] == [
        step for step in steps if step not in cut
    ]
    assert overlap < 1 or found == steps
    for kind, axis in {(step.kind, step.axis) for step in cut}:
        own = [step for step in cut if (step.kind, step.axis) == (kind, axis)]
        n_bytes, n_moved = sum(step.n_bytes for step in own), 0.0
        plain = [step for step in steps if step not in cut]
        places = [
            place
            for place, step in enumerate(found)
            if isinstance(step, CollectiveStep)
            and (step.kind, step.axis) == (kind, axis)
            and step not in plain
        ]
        pieces = [found[place] for place in places]
        beside = [step for step in pieces if isinstance(step, CollectiveStep) and step.label]
        for place, step in zip(places, pieces, strict=True):
            assert isinstance(step, CollectiveStep)
            n_moved += step.n_bytes
            if not step.label:
                before = next(s for s in reversed(found[:place]) if not _waited(s))
                assert isinstance(before, WaitStep), "it starts when the pass waits for it"
        assert n_moved == pytest.approx(n_bytes)
        assert sum(step.n_bytes for step in beside) == pytest.approx(overlap * n_bytes)
        assert len(pieces) <= len(own) + 1
        whole = [step.n_bytes for step in own]
        kept = [step.n_bytes for step in beside]
        assert kept[:-1] == whole[: max(len(kept) - 1, 0)], "the first ones go beside it, whole"


def _waited(step: Step) -> bool:
    return isinstance(step, CollectiveStep) and not step.label
