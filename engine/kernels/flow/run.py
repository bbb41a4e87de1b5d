"""Runs the flow kernel on flows that are all known before."""

from collections.abc import Sequence

from engine.kernels.flow.network import FlowNetwork, FlowRun
from engine.kernels.packet import Fabric, Flow, FlowColumns, Stop
from engine.lower.program import Floats


def simulate_flows(fabric: Fabric, flows: Sequence[Flow] | FlowColumns) -> FlowRun:
    """Send every flow at its max-min fair share of the links on its way.

    Rates are found anew whenever a flow starts or has sent its last byte, which arrives after the
    links' delays.  Headers, ACKs, buffers, windows and marks do not exist here.  Raises
    :class:`DimsweepError` for what cannot be simulated, naming the flow or the link.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    network.advance(stop=Stop.NEVER)
    return network.account()


def fair_rates(fabric: Fabric, flows: Sequence[Flow] | FlowColumns) -> Floats:
    """The rate of each flow (bytes a second) if all move at once.

    Raises :class:`DimsweepError` as :func:`simulate_flows`.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    return network.fair_rates()
