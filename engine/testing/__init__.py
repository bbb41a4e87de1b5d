"""Self-checks for authors of blocks, algorithms, generators, transports, memories and models.

Each compares an object with its own description and across fidelities, and raises
:class:`DimsweepError` with one sentence for each finding. The tests of dimsweep run them, too.
"""

from dimsweep.engine.testing.algorithm import check_algorithm
from dimsweep.engine.testing.block import check_block, check_generator
from dimsweep.engine.testing.model import check_memory, check_model, check_order
from dimsweep.engine.testing.transport import check_transport
