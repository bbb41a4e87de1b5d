"""ASTRA-sim 2.0's simulation, reproduced to the cycle."""

from engine.replicas.astra_sim.cycles import Cycles
from engine.replicas.astra_sim.program import Program as AstraProgram
from engine.replicas.astra_sim.program import is_compiled as is_astra_compiled
from engine.replicas.astra_sim.program import lower as lower_astra
from engine.replicas.astra_sim.simulate import simulate as simulate_astra

__all__ = [
    "AstraProgram",
    "Cycles",
    "is_astra_compiled",
    "lower_astra",
    "simulate_astra",
]
