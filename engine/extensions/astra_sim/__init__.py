"""ASTRA-sim 2.0's simulation, reproduced to the cycle."""

from dimsweep.engine.extensions.astra_sim.program import lower as lower_astra
from dimsweep.engine.extensions.astra_sim.program import lower_for_sweep as lower_astra_for_sweep
from dimsweep.engine.extensions.astra_sim.program import simulate as simulate_astra
from dimsweep.engine.extensions.astra_sim.workload import Cycles
