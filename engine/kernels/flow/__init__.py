"""The flow kernel: flows share links in the max-min fair way, and nothing is cut into packets."""

from engine.kernels.flow.network import FlowNetwork, FlowRun
from engine.kernels.flow.run import fair_rates, simulate_flows

__all__ = ["FlowNetwork", "FlowRun", "fair_rates", "simulate_flows"]
