"""How messages get from rank to rank, whoever carries them: one interface.

Links of our own take whole messages (:mod:`engine.kernels.reference.links`), or another kernel
moves them as flows or packets (:mod:`engine.kernels.reference.carried`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.extensions.wafer import WaferPlan
from dimsweep.engine.kernels.messages.program import check_number
from dimsweep.engine.kernels.messages.routes import router_of
from dimsweep.engine.kernels.messages.run import LinkAccount, Traffic, reducing_error
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.network.graph import Network


class Message(NamedTuple):
    """Bytes under way, and the name they are recorded under.

    On a wafer messages of a lower ``order`` go first, by their precedence and then by who began
    first, and in packets those of a lower precedence (:mod:`engine.kernels.messages.precedence`).
    Where the wafer ``preempts``, a message makes way at once for those of a lower precedence, else
    between the pieces of a collective.
    """

    n_bytes: float
    name: str
    order: tuple[int, int] = (0, 0)


class Sending(NamedTuple):
    """A message from rank to rank, and whom to tell of it.

    It leaves by the port into ``dim``; ``way`` chooses between two equally short routes.  ``left``
    is called when its last byte is on the first link (or, of a flow, when it is through),
    ``arrived`` when it is there, with the ps of latency that are still to pass.
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

    Every source sends ``up``; the switch reduces what it gets as it comes, or multicasts what a
    single source sends, and ``down`` goes to each target.  ``left`` is called with each source,
    ``arrived`` with each target and the ps of latency that are still to pass.
    """

    sources: Sequence[int]
    up: Message
    targets: Sequence[int]
    down: Message
    left: Callable[[int], None]
    arrived: Callable[[int, int], None]


class Transport(ABC):
    """Carries messages over a network; on a wafer the ``plan`` has the NPUs that ranks are at."""

    latency_passes_on_the_way = False  # else whoever gets a message is told how late it is

    def __init__(
        self, clock: Clock, network: Network, model: NetworkModel, plan: WaferPlan | None
    ) -> None:
        self.clock, self.network, self.model, self.plan = clock, network, model, plan
        self.router = router_of(network, model)
        self.places: Sequence[int] = plan.places if plan else range(network.n_npus)
        self.n_messages = 0

    def count(self, n_messages: int) -> None:
        """Raises :class:`DimsweepError` for more messages than the model allows."""
        self.n_messages += n_messages
        check_number(self.n_messages, self.model)

    @abstractmethod
    def send(self, sending: Sending) -> None:
        """Send a message; whom it tells of its way is in ``sending``."""

    def through_switch(self, switched: Switched) -> None:
        """Send messages up to a switch and down again.

        Raises :class:`DimsweepError` where no switch can reduce: what is carried is not reduced.
        """
        raise reducing_error()

    def run(self) -> None:
        """Run until nothing is planned any more."""
        self.clock.run_out()

    @abstractmethod
    def accounts(self, end: int) -> tuple[LinkAccount, ...]:
        """What each link has done by ``end``."""

    def traffic(self) -> Traffic | None:
        """What became of the messages, if anybody follows one over all its links."""
        return None

    def blocked(self) -> list[str]:
        """The links that stand still for ever, each with the message that it holds."""
        return []
