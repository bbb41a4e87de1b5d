"""ASTRA-sim 2.0's simulation, reproduced to the cycle."""

from dimsweep.engine.extensions.astra_sim.cycles import Cycles
from dimsweep.engine.extensions.astra_sim.program import lower as lower_astra
from dimsweep.engine.extensions.astra_sim.program import simulate as simulate_astra
from dimsweep.engine.extensions.astra_sim.sweep import lower_for_sweep as lower_astra_for_sweep
