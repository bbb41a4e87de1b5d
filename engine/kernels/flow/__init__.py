"""The flow kernel: flows share links in the max-min fair way, and nothing is cut into packets."""

from dimsweep.engine.kernels.flow.network import FlowNetwork, FlowRun, fair_rates, simulate_flows
