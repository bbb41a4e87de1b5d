"""ASTRA-sim 2.0's input files."""

from dimsweep.engine.formats.astra_sim.inputs import (
    Inputs,
    Options,
    read_inputs,
    read_ranks,
    read_topology,
    read_workload,
    with_noted_groups,
)
