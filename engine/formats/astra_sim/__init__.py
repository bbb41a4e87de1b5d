"""ASTRA-sim 2.0's input files."""

from engine.formats.astra_sim.files import read_inputs, read_ranks, read_topology, read_workload
from engine.formats.astra_sim.inputs import Inputs, Options

__all__ = [
    "Inputs",
    "Options",
    "read_inputs",
    "read_ranks",
    "read_topology",
    "read_workload",
]
