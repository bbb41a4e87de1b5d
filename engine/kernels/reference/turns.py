"""Turns of lines that cannot pass a wafer's switches at once."""

from collections.abc import Callable
from typing import NamedTuple


class _Asked(NamedTuple):
    round: int
    line: frozenset[int]
    start: Callable[[], None]


class Turns:
    """Lines are in rounds; lines of one round pass together, rounds one after another.

    Whoever has asked longest chooses the next round.  What its lines have asked for passes, and
    what else they ask for meanwhile, but while others wait nothing of a line that has had its turn:
    so nobody waits for ever.
    """

    def __init__(self) -> None:
        self._round, self._under_way = -1, 0
        self._passed: set[frozenset[int]] = set()  # in this turn
        self._waiting: list[_Asked] = []

    def ask(self, round_: int, line: frozenset[int], start: Callable[[], None]) -> None:
        """Call ``start`` when it is the turn of the line; :meth:`leave` must follow."""
        self._waiting.append(_Asked(round_, line, start))
        self._let_in()

    def leave(self) -> None:
        """What was started has come to its end."""
        self._under_way -= 1
        self._let_in()

    def _let_in(self) -> None:
        begins = not self._under_way
        if self._waiting and begins:
            self._round = self._waiting[0].round
            self._passed.clear()
        waiting, self._waiting = self._waiting, []
        others = any(asked.round != self._round for asked in waiting)
        for asked in waiting:
            again = asked.line in self._passed and others and not begins
            if asked.round == self._round and not again:
                self._under_way += 1
                self._passed.add(asked.line)
                asked.start()
            else:
                self._waiting.append(asked)
