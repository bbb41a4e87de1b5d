"""Messages carried by another kernel (:mod:`engine.kernels.carriers`), in step with the clock.

The clock goes on to the next thing that happens here, but first the carrier goes on to that time;
what is through earlier happens first.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

from engine.cluster.network import NetworkModel
from engine.kernels.carriers import Carrier, Kind, Traffic, Ways, ways_between
from engine.kernels.core.none import LONGEST
from engine.kernels.messages.count import check_number
from engine.kernels.messages.links import LinkAccount, utilisation
from engine.kernels.messages.routes import router_of
from engine.kernels.messages.run import reducing_error
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.crossing import Message
from engine.network.graph import Link, Network


class Senders(Protocol):
    """Ports that are free for their next phase when all that they have sent has left them."""

    def sends(self, rank: int, dim: int) -> None:
        """A message is to leave a rank's port."""

    def has_left(self, rank: int, dim: int) -> None:
        """The last byte of a message has left the port."""


class _UnderWay(NamedTuple):
    """A message that is not through yet, of a rank's port."""

    rank: int
    dim: int
    routes: tuple[tuple[int, ...], ...]
    left: Callable[[], None]
    arrived: Callable[[int], None]


class CarriedTransport:
    """Carries messages over a network by ``carrier``; see :class:`Transport`.

    Several messages share a link, so none waits for another.  With ``spray`` a message takes all
    its shortest ways at once.  Where latencies pass on the way, ``senders`` are told what leaves.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        model: NetworkModel,
        carrier: Carrier,
        places: Sequence[int] = (),
        *,
        spray: bool = False,
    ) -> None:
        self.clock, self._carrier = clock, carrier
        self._router, self._model, self._spray = router_of(network, model), model, spray
        self._places: Sequence[int] = places or range(network.n_npus)
        self._links = [_Shared(link) for link in network.links]
        self._under_way: dict[int, _UnderWay] = {}
        self._ways: dict[tuple[int, int, int], Ways] = {}
        self._operators: list[str] = []  # of the messages
        self.senders: Senders | None = None

    @property
    def n_messages(self) -> int:
        """How many messages were sent."""
        return len(self._operators)

    def run(self) -> None:
        """Run until nothing is planned any more."""
        self.clock.run_out(self._keep_step)

    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """What each link has done by ``end``."""
        return tuple(link.account(end) for link in self._links)

    def traffic(self) -> Traffic:
        """What became of the messages."""
        return self._carrier.traffic(self._operators)

    def blocked(self) -> list[str]:
        """The links that stand still for ever; a carrier would have said so itself."""
        return []

    def send(
        self,
        source: int,
        target: int,
        message: Message,
        *,
        dim: int,
        way: int,
        left: Callable[[], None],
        arrived: Callable[[int], None],
    ) -> None:
        """Send a message.  ``left`` is called when its last byte has left ``source``, or, if nobody
        tells, with ``arrived`` when it is through, which is given the ps of latency that are still
        to pass; ``way`` as in :meth:`Router.route`."""
        self._operators.append(message.name)
        check_number(self.n_messages, self._model)
        ways = self._between(self._places[source], self._places[target], way)
        number = self._carrier.send(Kind(ways, message.order[0]), message.n_bytes, self.clock.ps)
        self._under_way[number] = _UnderWay(source, dim, ways.out, left, arrived)
        if self.senders is not None:
            self.senders.sends(source, dim)
        for link in chain(*ways.out):
            self._links[link].begin(message.n_bytes / len(ways.out), self.clock.ps)

    def through_switch(self, *_: object, **__: object) -> None:
        """Raises :class:`DimsweepError`: neither flows nor packets are reduced on their way."""
        raise reducing_error()

    def _keep_step(self, until: float) -> None:
        """Let the carrier go on until something is through or leaves, at most to ``until``."""
        if not self._under_way:
            return
        limit, now = LONGEST if until == math.inf else int(until), self.clock.ps
        done = self._carrier.advance(limit)
        while self.senders is not None and len(done.departing):
            for number, at in zip(done.departing.tolist(), done.departures.tolist(), strict=True):
                self.clock.later(at - now, partial(self._leave, self.senders, number))
                limit = min(limit, at)
            if len(done.arrived) or done.time == limit:
                break
            done = self._carrier.advance(limit)
        if len(done.arrived):
            self.clock.later(done.time - now, partial(self._finish, done.arrived.tolist()))

    def _leave(self, senders: Senders, number: int) -> None:
        message = self._under_way[number]
        message.left()
        senders.has_left(message.rank, message.dim)

    def _finish(self, through: Sequence[int]) -> None:
        for number in through:
            message = self._under_way.pop(number)
            for link in chain(*message.routes):
                self._links[link].end(self.clock.ps)
            if self.senders is None:
                message.left()
            message.arrived(self._carrier.latency_after(message.routes[0]))

    def _between(self, source: int, target: int, way: int) -> Ways:
        key = source, target, way
        if key not in self._ways:
            self._ways[key] = ways_between(self._router, *key, spray=self._spray)
        return self._ways[key]


class _Shared:
    """A link that messages share, and what it has done so far."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._n_bytes, self._busy = 0.0, 0
        self._now = self._most = self._since = 0  # messages on it, the most of them, ps

    def begin(self, n_bytes: float, now: int) -> None:
        if not self._now:
            self._since = now
        self._now += 1
        self._most = max(self._most, self._now)
        self._n_bytes += n_bytes

    def end(self, now: int) -> None:
        self._now -= 1
        if not self._now:
            self._busy += now - self._since

    def account(self, end: int) -> LinkAccount:
        used = utilisation(self.link, self._n_bytes, end)
        beside = max(self._most - 1, 0)
        return LinkAccount(self.link, self._n_bytes, self._busy, used, beside, ())
