"""Custom collectives: a trace of sends, receives and computations for every rank, replayed.

All nodes that wait for nothing are issued at once; the collective's own size is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.errors import DimsweepError
from engine.formats.chakra.node import Node
from engine.formats.chakra.trace import NodeType


class Replay:
    """One rank's part of a custom collective."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        send: Callable[[Node, Callable[[], None]], None],
        receive: Callable[[Node, Callable[[], None]], None],
        wait: Callable[[int, Callable[[], None]], None],
        done: Callable[[], None],
    ) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._send, self._receive, self._wait, self._done = send, receive, wait, done
        self._waits = {node.id: len(node.dependencies) for node in nodes}
        self._left = len(nodes)

    def start(self) -> None:
        for i, count in list(self._waits.items()):
            if not count:
                self._issue(self._nodes[i])

    def _issue(self, node: Node) -> None:
        ended = partial(self._end, node)
        if node.type is NodeType.COMM_SEND:
            self._send(node, ended)
        elif node.type is NodeType.COMM_RECV:
            self._receive(node, ended)
        elif node.type is NodeType.COMP:
            self._wait(node.duration, ended)
        else:
            raise DimsweepError(
                f"a node of type {node.type.name} in a custom collective",
                where=f"node {node.name!r}",
                hint="sends, receives and computations are replayed",
            )

    def _end(self, node: Node) -> None:
        self._left -= 1
        for other in self._nodes.values():
            if node.id in other.dependencies:
                self._waits[other.id] -= 1
                if not self._waits[other.id]:
                    self._issue(other)
        if not self._left:
            self._done()
