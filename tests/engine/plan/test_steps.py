"""A rank's graph, stamped from items, is what building it operator by operator gives."""

from collections.abc import Sequence

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
from dimsweep.engine.plan.steps import Item, RankGraph
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
