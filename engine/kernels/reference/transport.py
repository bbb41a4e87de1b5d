"""Transport of messages from rank to rank: one interface for links, flows and packets.

Either links take whole messages (:mod:`engine.kernels.reference.links`), or another kernel moves
the messages as flows or packets, in step with the clock: before the clock advances to its next
event, the carrier advances to that time, and earlier arrivals happen first.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.carriers import CARRIERS, Kind, Traffic, ways_between
from dimsweep.engine.kernels.core.tables import LONGEST
from dimsweep.engine.kernels.messages.program import (
    LinkAccount,
    check_message_count,
    reducing_error,
)
from dimsweep.engine.kernels.messages.routes import router_of
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.interconnect import InterconnectPlan


class Message(NamedTuple):
    """Bytes in flight over links, and the name under which they are recorded.

    On an interconnect, messages of a lower ``order`` go first: by precedence, then by the start of
    their strand.  In packets only the precedence counts (:mod:`engine.kernels.messages.phases`).
    Where the interconnect ``preempts``, a message is suspended at once for one of a lower
    precedence; otherwise the order applies between the pieces of a collective.
    """

    n_bytes: float
    name: str
    order: tuple[int, int] = (0, 0)


class Sending(NamedTuple):
    """A message from rank to rank, and the callbacks for its departure and arrival.

    It leaves by the port into dimension ``dim``; ``way`` chooses between equally short routes.
    ``left`` is called when its last byte is on the first link (or, for a flow, when all bytes are
    sent).  ``arrived`` is called when all bytes have arrived, with the latency (ps) that has not
    passed yet.
    """

    message: Message
    source: int
    target: int
    dim: int
    way: int
    left: Callable[[], None]
    arrived: Callable[[int], None]


class Switched(NamedTuple):
    """Messages that a switch, or a tree of switches, reduces or multicasts.

    Every source sends ``up`` bytes.  The switch reduces them as they arrive, or multicasts those of
    a single source, and sends ``down`` bytes to each target.  ``left`` is called with each source,
    ``arrived`` with each target and the latency (ps) that has not passed yet.
    """

    sources: Sequence[int]
    up: Message
    targets: Sequence[int]
    down: Message
    left: Callable[[int], None]
    arrived: Callable[[int, int], None]


class Transport(ABC):
    """Base class: carries messages between ranks over a network.

    On an interconnect the ``plan`` has the NPUs of the ranks.
    """

    latency_passes_on_the_way = False  # else each message arrives with its lateness

    def __init__(
        self, clock: Clock, network: Network, model: NetworkModel, plan: InterconnectPlan | None
    ) -> None:
        self.clock, self.network, self.model, self.plan = clock, network, model, plan
        self.router = router_of(network, model)
        self.places: Sequence[int] = plan.places if plan else range(network.n_npus)
        self.n_messages = 0

    def count(self, n_messages: int) -> None:
        """Add to the number of messages; raise :class:`DimsweepError` beyond the model's limit."""
        self.n_messages += n_messages
        check_message_count(self.n_messages, self.model)

    @abstractmethod
    def send(self, sending: Sending) -> None:
        """Send a message from rank to rank."""

    def send_through_switch(self, switched: Switched) -> None:
        """Send messages up to a switch and its results down again.

        Raises :class:`DimsweepError` for flows and packets, which no switch can reduce.
        """
        raise reducing_error()

    def run(self) -> None:
        """Run until no event is left."""
        self.clock.run_until_idle()

    @abstractmethod
    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """Return the account of each link at time ``end``."""

    def traffic(self) -> Traffic | None:
        """Return the start and arrival of each message, or None where messages take links."""
        return None

    def blocked(self) -> list[str]:
        """Return the links that are blocked for ever, each with the message that it holds."""
        return []


class CarriedTransport(Transport):
    """A transport whose messages a carrier moves as flows or packets, which share links.

    The carrier records the traffic of the links ``watched``.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        model: NetworkModel,
        plan: InterconnectPlan | None,
        fidelity: Fidelity,
        watched: Collection[int],
    ) -> None:
        super().__init__(clock, network, model, plan)
        self.latency_passes_on_the_way = fidelity is Fidelity.PACKET
        self._carrier = CARRIERS[fidelity](network, model, watched)
        self._ways_between = cache(partial(ways_between, self.router))
        self._links = [_SharedLink(link) for link in network.links]
        self._under_way: dict[int, tuple[Sending, list[_SharedLink], int]] = {}  # latency to pass
        self._names: list[str] = []  # of the operators whose messages they are

    def run(self) -> None:
        """Run until neither the clock nor the carrier has events left."""
        self.clock.run_until_idle(self._advance)

    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """Return the account of each link at time ``end``."""
        return tuple(link.account(end) for link in self._links)

    def traffic(self) -> Traffic:
        """Return the start and arrival of each message."""
        return self._carrier.traffic(self._names)

    def send(self, sending: Sending) -> None:
        """Hand a message to the carrier at the present time."""
        message, ends = sending.message, (self.places[sending.source], self.places[sending.target])
        self._names.append(message.name)
        self.count(1)
        ways = self._ways_between(*ends, sending.way)
        number = self._carrier.send(Kind(ways, message.order[0]), message.n_bytes, self.clock.ps)
        passed = Counter(chain(*ways.out))
        latency = sum(self._links[link].link.latency * n for link, n in passed.items())
        late = 0 if self.latency_passes_on_the_way else round(latency / len(ways.out))
        links = [self._links[link] for link in passed]
        self._under_way[number] = sending, links, late
        for link, n in zip(links, passed.values(), strict=True):
            link.begin(message.n_bytes * (n / len(ways.out)), self.clock.ps)

    def _advance(self, until: float) -> None:
        """Advance the carrier until a message arrives or leaves its sender, or to ``until``."""
        if not self._under_way:
            return
        limit, now = LONGEST if until == math.inf else int(until), self.clock.ps
        done = self._carrier.advance(limit)
        while self.latency_passes_on_the_way and len(done.departing):
            for number, at in zip(done.departing.tolist(), done.departures.tolist(), strict=True):
                self.clock.call_later(at - now, partial(self._leave, number))
                limit = min(limit, at)
            if len(done.arrived) or done.time == limit:
                break
            done = self._carrier.advance(limit)
        if len(done.arrived):
            self.clock.call_later(done.time - now, partial(self._finish, done.arrived.tolist()))

    def _leave(self, number: int) -> None:
        sending, *_ = self._under_way[number]
        sending.left()

    def _finish(self, arrived: Sequence[int]) -> None:
        for number in arrived:
            sending, links, latency = self._under_way.pop(number)
            for link in links:
                link.end(self.clock.ps)
            if not self.latency_passes_on_the_way:
                sending.left()
            sending.arrived(latency)


class _SharedLink:
    """A link that several messages use at once, and its traffic so far (times in ps)."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._n_bytes, self._busy, self._since = 0.0, 0, 0
        self._n_now = self._n_most = 0  # messages on it

    def begin(self, n_bytes: float, now: int) -> None:
        if not self._n_now:
            self._since = now
        self._n_now += 1
        self._n_most = max(self._n_most, self._n_now)
        self._n_bytes += n_bytes

    def end(self, now: int) -> None:
        self._n_now -= 1
        if not self._n_now:
            self._busy += now - self._since

    def account(self, end: int) -> LinkAccount:
        beside = max(self._n_most - 1, 0)
        return LinkAccount.from_totals(end, self.link, self._n_bytes, self._busy, beside, ())
