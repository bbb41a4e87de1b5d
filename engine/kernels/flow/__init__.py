"""The flow kernel: messages are flows that share links at max-min fair rates, without packets."""

from dimsweep.engine.kernels.flow.network import FlowNetwork, FlowRun, fair_rates, simulate_flows
