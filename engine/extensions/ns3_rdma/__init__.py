"""ASTRA-sim's packet simulator (ns-3 with the RDMA model of HPCC), reproduced to the nanosecond."""

from dimsweep.engine.extensions.ns3_rdma.scenario import (
    Build,
    Scenario,
    Topology,
    simulate_scenario,
)
