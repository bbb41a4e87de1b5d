"""RePurpose: restructure and prune a trained network so that its parts communicate less.

from dimsweep.engine.extensions.repurpose import Penalty, restructure, inference
"""

from dimsweep.engine.extensions.repurpose.methods import METHODS, Restructured, restructure
from dimsweep.engine.extensions.repurpose.placement import assign
from dimsweep.engine.extensions.repurpose.problem import Penalty, Workers
from dimsweep.engine.extensions.repurpose.serving import inference, workers_on
