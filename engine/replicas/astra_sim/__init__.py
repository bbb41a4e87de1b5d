"""ASTRA-sim 2.0's simulation, reproduced to the cycle."""

from engine.replicas.astra_sim.cycles import Cycles
from engine.replicas.astra_sim.program import lower as lower_astra
from engine.replicas.astra_sim.program import simulate as simulate_astra
from engine.replicas.astra_sim.sweep import lower_for_sweep as lower_astra_for_sweep

__all__ = [
    "Cycles",
    "lower_astra",
    "lower_astra_for_sweep",
    "simulate_astra",
]
