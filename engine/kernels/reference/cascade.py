"""Messages that set each other off, link by link (:mod:`engine.kernels.messages.cascades`), and
turns of lines that cannot pass a wafer's switches at once."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.cascades import Cascade, Launch
from dimsweep.engine.kernels.reference.crossing import Crossing, FarEnd
from dimsweep.engine.kernels.reference.transport import Message
from dimsweep.engine.kernels.reference.wires import Wire


class RunningCascade:
    """A cascade under way.

    ``message`` says what a launch takes over its link; ``over`` is called with each launch that is
    somebody's when all of it has left (or has come, if it is stored or at its end).
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        cascade: Cascade,
        message: Callable[[Launch], Message],
        over: Callable[[Launch], None],
    ) -> None:
        self._wires, self._cascade, self._message, self._over = wires, cascade, message, over
        self._begun: dict[int, list[Crossing]] = defaultdict(list)  # to come to each gate

    def start(self) -> None:
        """Send what the cascade begins with."""
        self._launch(self._cascade.first, ())

    def _launch(self, launches: tuple[int, int], feeds: Sequence[Crossing]) -> None:
        for launch in self._cascade.launches[slice(*launches)]:
            cross = partial(Crossing, self._wires[launch.link], self._message(launch), feeds)
            if launch.stored or launch.gate == NONE:
                cross(lambda: None, partial(self._store, launch), FarEnd.TARGET)
            else:
                cross(partial(self._end, launch), partial(self._reach, launch), FarEnd.SWITCH)

    def _store(self, launch: Launch, crossing: Crossing) -> None:
        self._end(launch)
        if launch.gate != NONE:
            self._reach(launch, crossing)

    def _end(self, launch: Launch) -> None:
        if launch.who != NONE:
            self._over(launch)

    def _reach(self, launch: Launch, crossing: Crossing) -> None:
        """Something has begun to come to a gate; what it feeds begins when all has."""
        gate, begun = self._cascade.gates[launch.gate], self._begun[launch.gate]
        begun.append(crossing)
        if len(begun) == gate.expected:
            self._launch(gate.launches, begun)


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
