"""Messages carried as flows or packets by another kernel, in step with the clock.

The clock goes on to the next thing that happens here, but first the carrier goes on to that time;
what is through earlier happens first.  This is all that this room knows of carriers.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, partial
from itertools import chain

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.extensions.wafer import WaferPlan
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kernels.carriers import CARRIERS, Kind, Traffic, ways_between
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.messages.run import LinkAccount
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.transport import Sending, Transport
from dimsweep.engine.network.graph import Link, Network


class CarriedTransport(Transport):
    """Has a carrier move all messages; several share a link, so none waits for another.

    The carrier notes what the links ``watched`` do.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        model: NetworkModel,
        plan: WaferPlan | None,
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
        self.clock.run_out(self._advance)

    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        return tuple(link.account(end) for link in self._links)

    def traffic(self) -> Traffic:
        return self._carrier.traffic(self._names)

    def send(self, sending: Sending) -> None:
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
        """Let the carrier go on until something is through or leaves, at most to ``until``."""
        if not self._under_way:
            return
        limit, now = LONGEST if until == math.inf else int(until), self.clock.ps
        done = self._carrier.advance(limit)
        while self.latency_passes_on_the_way and len(done.departing):
            for number, at in zip(done.departing.tolist(), done.departures.tolist(), strict=True):
                self.clock.later(at - now, partial(self._leave, number))
                limit = min(limit, at)
            if len(done.arrived) or done.time == limit:
                break
            done = self._carrier.advance(limit)
        if len(done.arrived):
            self.clock.later(done.time - now, partial(self._finish, done.arrived.tolist()))

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
    """A link that messages share, and what it has done so far (times in ps)."""

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
        return LinkAccount.by(end, self.link, self._n_bytes, self._busy, beside, ())
