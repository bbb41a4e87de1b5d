"""ASTRA-sim's double binary trees as they run on one NPU."""

from collections.abc import Callable, Sequence
from typing import Protocol

from dimsweep.engine.extensions.astra_sim.algorithms import Costs, Port, Trip, cross


class OneWayPort(Port, Protocol):
    """A port that also sends without expecting anything, and the other way round."""

    def send(self, target: int, n_bytes: int) -> None: ...

    def receive(self, source: int, n_bytes: int, received: Callable[[], None]) -> None: ...


class DoubleBinaryTree:
    """All bytes up and down one of two in-order trees; whatever the kind, an all-reduce."""

    def __init__(
        self,
        port: OneWayPort,
        costs: Costs,
        n_bytes: int,
        ranks: Sequence[int],
        *,
        root_is_last: bool,
        done: Callable[[], None],
    ) -> None:
        self._port, self._costs, self._n_bytes, self._done = port, costs, n_bytes, done
        n, me = len(ranks), ranks.index(port.rank)
        parent, children = _tree_place(n, n - 1 - me if root_is_last else me)
        if root_is_last:
            parent = None if parent is None else n - 1 - parent
            children = [n - 1 - child for child in reversed(children)]
        self._parent = None if parent is None else ranks[parent]
        self._children = [ranks[child] for child in children]
        self._arrived, self._missing = 0, len(children)

    def start(self) -> None:
        if not self._children:
            self._cross(self._up, Trip(out=True))
        for child in self._children:
            self._port.receive(child, self._n_bytes, self._from_child)

    def _from_child(self) -> None:
        self._arrived += 1
        last = self._arrived == len(self._children)
        self._cross(self._one_less, Trip(processed=True, back=last))

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        if self._parent is None:
            self._down()
        else:
            self._up()

    def _up(self) -> None:
        assert self._parent is not None
        self._port.send(self._parent, self._n_bytes)
        self._port.receive(self._parent, self._n_bytes, self._from_parent)

    def _from_parent(self) -> None:
        if self._children:
            self._cross(self._down, Trip(processed=True, back=True))
        else:
            self._cross(self._done, Trip())

    def _down(self) -> None:
        for child in self._children:
            self._port.send(child, self._n_bytes)
        self._done()

    def _cross(self, call: Callable[[], None], trip: Trip) -> None:
        cross(self._port, self._costs, self._n_bytes, call, trip)


def _tree_place(n: int, place: int) -> tuple[int | None, list[int]]:
    """Parent and children in an in-order tree of 1..n-1 under the root 0; n is a power of two."""
    if place == 0:
        return None, [n // 2]
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    parent = above if above < n else 0
    return parent, [place - bit // 2, place + bit // 2] if bit > 1 else []
