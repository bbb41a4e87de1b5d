"""The message kernel: every NPU, every message, every link, on SimPy.

Links are SimPy's resources, or messages are carried by the flow or the packet kernel.
"""

from engine.kernels.reference.kernel import (
    MessageRun,
    check_network,
    lower_by_rank,
    network_of,
    run_on_simpy,
)
from engine.kernels.reference.links import LinkAccount
from engine.kernels.reference.preemption import may_suspend

__all__ = [
    "LinkAccount",
    "MessageRun",
    "check_network",
    "lower_by_rank",
    "may_suspend",
    "network_of",
    "run_on_simpy",
]
