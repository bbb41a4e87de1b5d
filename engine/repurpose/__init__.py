"""RePurpose: a trained network rearranged and pruned so that its parts talk less when it is served.

from dimsweep.engine.repurpose import Penalty, restructure, inference
"""

from dimsweep.engine.repurpose.assignment import assign
from dimsweep.engine.repurpose.methods import METHODS, Restructured, restructure
from dimsweep.engine.repurpose.problem import Penalty, Workers
from dimsweep.engine.repurpose.serving import inference, workers_on
