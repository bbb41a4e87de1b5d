"""Sends without receives, and receives without sends."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dimsweep.engine.formats.chakra.lint.trace import Finding
from dimsweep.engine.formats.chakra.node import Node
from dimsweep.engine.formats.chakra.trace import NodeType

Place = tuple[int, int]  # rank, and place in its trace
Fault = tuple[str, str]  # what is wrong, and the fix


class _Message(NamedTuple):
    """A send or a receive."""

    tag: int
    size: int
    place: Place

    @property
    def content(self) -> tuple[int, int]:
        """What the two ends must agree on, as in ASTRA-sim."""
        return self.tag, self.size

    def __str__(self) -> str:
        return f"{self.size:,} B with tag {self.tag}"


class Messages:
    """The messages among ``n`` ranks; ``where`` names a node."""

    def __init__(self, n: int, where: Callable[[Place], str]) -> None:
        self._n, self._where = n, where
        self._sends: dict[tuple[int, int], list[_Message]] = {}  # by source and target
        self._receives: dict[tuple[int, int], list[_Message]] = {}

    def add(self, place: Place, node: Node) -> Fault | None:
        """Note a send or a receive; returns a fault if its peer is wrong."""
        rank, sends = place[0], node.type is NodeType.COMM_SEND
        peer = node.target if sends else node.source
        if peer >= self._n or peer == rank:
            what = f"its peer is rank {peer}" + (", itself" if peer == rank else "")
            return what, f"there are traces of ranks 0 to {self._n - 1}"
        ends = (rank, peer) if sends else (peer, rank)
        table = self._sends if sends else self._receives
        table.setdefault(ends, []).append(_Message(node.tag, node.size, place))
        return None

    def findings(self) -> Iterator[Finding]:
        """Messages that one rank sends and the other does not receive, or the reverse: they match
        by tag and size."""
        for ends in sorted({*self._sends, *self._receives}):
            sends, receives = self._sends.get(ends, []), self._receives.get(ends, [])
            if Counter(m.content for m in sends) != Counter(m.content for m in receives):
                yield from self._unmatched(*ends, sends, receives)

    def pairs(self) -> Iterator[tuple[Place, Place]]:
        """Each receive, and its send: of equal ones, in the order of issue."""
        for ends, receives in self._receives.items():
            sends: dict[tuple[int, int], deque[Place]] = {}
            for send in self._sends.get(ends, []):
                sends.setdefault(send.content, deque()).append(send.place)
            for receive in receives:
                if sends.get(receive.content):
                    yield receive.place, sends[receive.content].popleft()

    def _unmatched(
        self, source: int, target: int, sends: Sequence[_Message], receives: Sequence[_Message]
    ) -> Iterator[Finding]:
        sent, received = _surplus(sends, receives), _surplus(receives, sends)
        for send in sent:
            what = f"rank {target} does not receive {send} of rank {source}"
            other = _nearest(send, received)
            if other is None:
                fix = f"add the receive to the trace of rank {target}"
            else:
                received.remove(other)
                what += f", but {other}"
                fix = f"make them equal; the receive is {self._where(other.place)}"
            yield Finding(self._where(send.place), what, fix)
        for receive in received:
            what = f"rank {source} does not send {receive} to rank {target}"
            fix = f"add the send to the trace of rank {source}"
            yield Finding(self._where(receive.place), what, fix)


def _surplus(some: Sequence[_Message], others: Sequence[_Message]) -> list[_Message]:
    """Those of ``some`` that find no equal among ``others``."""
    left = Counter(message.content for message in others)
    surplus = []
    for message in some:
        if left[message.content]:
            left[message.content] -= 1
        else:
            surplus.append(message)
    return surplus


def _nearest(send: _Message, receives: Sequence[_Message]) -> _Message | None:
    """The receive that was probably meant: of the same tag, else of the same size."""
    same_tag = [receive for receive in receives if receive.tag == send.tag]
    same_size = [receive for receive in receives if receive.size == send.size]
    return next(iter(same_tag + same_size), None)
