"""RePurpose: a trained network rearranged and pruned so that its parts talk less when it is served.

from dimsweep.engine.extensions.repurpose import Penalty, restructure, inference
"""

from dimsweep.engine.extensions.repurpose.methods import METHODS, Restructured, restructure
from dimsweep.engine.extensions.repurpose.placement import assign
from dimsweep.engine.extensions.repurpose.problem import Penalty, Workers
from dimsweep.engine.extensions.repurpose.serving import inference, workers_on
