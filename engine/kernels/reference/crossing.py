"""One message on one link: from when it asks for the link until its last byte is on it.

A message that may be suspended shows what a time of arrival that was promised is worth: where it
is cut through, the links further on wait for bytes that come later than they were to.  So a
crossing knows the crossings that *feed* it, and is planned again when one of them is.

How much of a message is on a link is counted in picoseconds of its transfer there.  It is what the
link could send since it was given to the message, and no more than has come: of what feeds it, the
same part of the message, less the packet that a device waits for.  Between two changes of a plan
links send at one rate first and then as fast as bytes come, never slower and then faster, so the
smaller of the two is exact.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial

import simpy
from simpy.resources.resource import Request

from dimsweep.engine.kernels.reference.transport import Message
from dimsweep.engine.kernels.reference.wires import Wire


class FarEnd(Enum):
    """What is at the far end of a link."""

    TARGET = auto()  # takes messages in when they are all there
    BUFFER = auto()  # passes them on, when there is room for them if that has a limit
    SWITCH = auto()  # passes them on as they come: what reduces or multicasts buffers nothing


class Crossing:
    """A message on a link; what it does begins when it is made.

    Its last byte comes when those of all ``feeds`` have (none: it is there).  ``left`` is called
    when its last byte is on the link; ``passed``, with this, when the ``far_end`` may pass it on,
    or has taken it in.  ``end`` is when its last byte is on the link, as planned: None before it
    has the link, and while it, or what feeds it, is suspended.  The link's latency is left out.
    """

    def __init__(
        self,
        wire: Wire,
        message: Message,
        feeds: Sequence["Crossing"],
        left: Callable[[], None],
        passed: Callable[["Crossing"], None],
        far_end: FarEnd,
    ) -> None:
        self._clock, self._wire, self.message = wire.clock, wire, message
        self._feeds, self._left, self._passed = feeds, left, passed
        self._far_end = far_end
        self._transfer, self._head = wire.transfer(message.n_bytes), wire.head(message.n_bytes)
        self.end: int | None = None
        self._sent = self._at = 0  # ps of its transfer, as counted last; when that was
        self._since: int | None = None  # when it was given the link; None: it does not hold it
        self._plan = 0  # the number of the one that holds; what others had planned is void
        self._was_passed = False  # whether it was passed on
        self._followers: list[Crossing] = []  # what it feeds
        for feed in feeds:
            feed.follow(self)
        self.wait(wire.ask(self))

    @property
    def precedence(self) -> int:
        """Messages of a lower precedence go first."""
        return self.message.order[0]

    def follow(self, crossing: "Crossing") -> None:
        """Tell ``crossing`` of new plans, as long as there can be any."""
        if self.end is None or self.end > self._clock.ps:
            self._followers.append(crossing)

    def suspend(self) -> bool:
        """The link is another message's from now on; whether something is left to go on with."""
        now = self._clock.ps
        if self.end == now:
            return False  # its last byte is on the link
        if self._since is not None:
            self._sent = self._progress()
            if now > self._since:
                self._wire.was_held(self._since, now, self.message.name)
        self._since = self.end = None
        self._plan += 1
        self._replan_followers()
        return True

    def wait(self, turn: Request) -> None:
        """Go on when ``turn``, on the link, has come."""
        self._turn: Request | None = turn
        self._wire.longest_queue = max(self._wire.longest_queue, len(self._wire.queue))
        turn.callbacks.append(self._enter)

    def _enter(self, turn: simpy.Event) -> None:
        if turn is not self._turn:
            return  # it had to make way before it could begin
        if self._far_end is FarEnd.BUFFER and self._wire.room is not None:
            self._wire.blocked = self.message.name
            self._wire.take_room(self.message.n_bytes).callbacks.append(self._go)
        else:
            self._go(turn)

    def _go(self, _: simpy.Event) -> None:
        self._wire.blocked = ""
        self._since = self._at = self._clock.ps
        self._make_plan()
        self._replan_followers()

    def _make_plan(self) -> None:
        """Plan the rest, with what is known now."""
        self._plan += 1
        now, tail = self._clock.ps, self._tail()
        left = self._transfer - self._sent
        self.end = None if tail is None else max(now + left, tail + self._head)
        if self.end is not None:
            self._clock.later(self.end - now, partial(self._free, self._plan))
        if not self._was_passed:
            ready = (
                self.end
                if self._far_end is FarEnd.TARGET
                else now + max(0, self._head - self._sent)
            )
            if ready is not None:
                self._clock.later(ready - now, partial(self._pass, self._plan))

    def _tail(self) -> int | None:
        """When the last byte comes, if that is known."""
        latest = 0
        for feed in self._feeds:
            if feed.end is None:
                return None
            latest = max(latest, feed.end)
        return latest

    def _pass(self, plan: int) -> None:
        if plan == self._plan:
            self._was_passed = True
            self._passed(self)

    def _free(self, plan: int) -> None:
        if plan != self._plan:
            return
        wire, turn = self._wire, self._turn
        assert self._since is not None and turn is not None
        wire.n_bytes += self.message.n_bytes
        wire.was_held(self._since, self._clock.ps, self.message.name)
        self._since = self._turn = None
        self._followers.clear()
        wire.release(turn)
        self._left()

    def _replan_followers(self) -> None:
        for follower in self._followers:
            follower.feed_has_new_plan()

    def feed_has_new_plan(self) -> None:
        """What feeds it has a new plan, or none for a while."""
        if self._since is not None:
            self._sent, self._at = self._progress(), self._clock.ps
            self._make_plan()
            self._replan_followers()

    def _progress(self) -> int:
        """How much of its transfer is done by now (ps)."""
        if self._since is None:
            return self._sent
        done = self._sent + self._clock.ps - self._at
        return min((done, *map(self._could_do, self._feeds)))

    def _could_do(self, feed: "Crossing") -> int:
        """How much of its transfer could be done, by what has come from ``feed`` (ps)."""
        now = self._clock.ps
        if feed.end is not None and feed.end <= now:
            return self._transfer - max(0, self._head - (now - feed.end))
        if not feed._transfer:
            return 0
        done = -(-feed._progress() * self._transfer // feed._transfer)
        return max(0, done - self._head)
