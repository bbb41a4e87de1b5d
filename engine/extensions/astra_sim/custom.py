"""Custom collectives: a trace of sends, receives and computations for every rank, replayed.

All nodes that wait for nothing are issued at once; the collective's own size is not looked at.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.node import Node
from dimsweep.engine.formats.chakra.trace import NodeType

if TYPE_CHECKING:
    from dimsweep.engine.extensions.astra_sim.npu import Npu


def replayed(node: Node) -> int:
    """How long (ns) a recorded node takes; one without a duration takes a cycle, as there."""
    return node.duration or 1


class Replay:
    """One rank's part of a custom collective; ``tag`` keeps its messages from those of others."""

    def __init__(
        self, npu: "Npu", tag: object, nodes: Sequence[Node], *, done: Callable[[], None]
    ) -> None:
        self._npu, self._tag, self._done = npu, tag, done
        self._nodes = {node.id: node for node in nodes}
        self._waits = {node.id: len(node.dependencies) for node in nodes}
        self._left = len(nodes)

    def start(self) -> None:
        for i, count in list(self._waits.items()):
            if not count:
                self._issue(self._nodes[i])

    def _issue(self, node: Node) -> None:
        npu, tag, ended = self._npu, (self._tag, node.tag), partial(self._end, node)
        if node.type is NodeType.COMM_SEND:
            npu.wires.send(npu, node.target, tag, node.size, ended)
        elif node.type is NodeType.COMM_RECV:
            npu.wires.receive(npu, node.source, tag, node.size, ended)
        elif node.type is NodeType.COMP:
            npu.timers.register(replayed(node), ended)
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
