"""Self-checks: whoever writes a block, an algorithm or a transport runs them, and so do our tests.

Each holds an object against what it says of itself and against the other fidelities, and raises
:class:`DimsweepError` with what was found wrong, in one sentence each.
"""

from engine.testing.algorithm import check_algorithm
from engine.testing.block import check_block
from engine.testing.transport import check_transport

__all__ = ["check_algorithm", "check_block", "check_transport"]
