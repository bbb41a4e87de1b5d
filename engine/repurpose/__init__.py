"""RePurpose: a trained network rearranged and pruned so that its parts talk less when it is served.

from engine.repurpose import Penalty, restructure, inference
"""

from engine.repurpose.assignment import assign
from engine.repurpose.methods import METHODS, Restructured, restructure
from engine.repurpose.problem import Penalty, Workers
from engine.repurpose.serving import inference, workers_on

__all__ = [
    "METHODS",
    "Penalty",
    "Restructured",
    "Workers",
    "assign",
    "inference",
    "restructure",
    "workers_on",
]
