"""Runs the packet kernel, and says what happened."""

from collections.abc import Collection, Sequence

from engine.kernels.packet.account import PacketRun
from engine.kernels.packet.flows import Flow, FlowColumns
from engine.kernels.packet.inputs import Fabric
from engine.kernels.packet.network import PacketNetwork
from engine.kernels.packet.settings import Settings, Stop
from engine.kernels.packet.tables import Draws


def simulate_packets(
    fabric: Fabric,
    flows: Sequence[Flow] | FlowColumns,
    settings: Settings | None = None,
    *,
    watch: Collection[tuple[int, int]] = (),
    seed: int = 0,
    draws: Draws | None = None,
) -> PacketRun:
    """Send every packet of every flow.

    ``watch`` names ports by their node and the one they send to, whose queues are noted over time.
    Marks are drawn by ``draws``, a function that returns the next n random numbers of the run, or
    by a generator with ``seed``.  Raises :class:`DimsweepError` for what cannot be simulated, and
    naming the flows that never end if the fabric deadlocks.
    """
    settings = settings or Settings()
    network = PacketNetwork(fabric, settings, watch=watch, seed=seed, draws=draws)
    network.add(flows)
    network.advance(settings.until, Stop.NEVER)
    return network.account()
