"""Messages that set each other off, link by link (:mod:`engine.kernels.messages.cascades`)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.cascades import Cascade, Launch
from dimsweep.engine.kernels.reference.crossing import Crossing
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
                cross(_ignore, partial(self._store, launch), last=True)
            else:
                cross(partial(self._end, launch), partial(self._reach, launch))

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


def _ignore() -> None:
    pass
