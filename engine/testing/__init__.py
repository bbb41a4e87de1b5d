"""Self-checks: whoever writes a block or an algorithm runs them, and so do this project's tests.

Each holds an object against what it says of itself and against the other fidelities, and raises
:class:`DimsweepError` with what was found wrong, in one sentence each.
"""

from engine.testing.algorithm import check_algorithm
from engine.testing.block import check_block

__all__ = ["check_algorithm", "check_block"]
