"""Self-checks: whoever writes a block, an algorithm, a generator, a transport, a memory or a model
runs them, and so do our tests.

Each holds an object against what it says of itself and against the other fidelities, and raises
:class:`DimsweepError` with what was found wrong, in one sentence each.
"""

from dimsweep.engine.testing.algorithm import check_algorithm
from dimsweep.engine.testing.block import check_block, check_generator
from dimsweep.engine.testing.model import check_memory, check_model, check_order
from dimsweep.engine.testing.transport import check_transport
