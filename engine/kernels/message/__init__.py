"""The message kernel: every NPU, every message, every link, on SimPy."""

from engine.kernels.message.kernel import (
    LinkAccount,
    MessageRun,
    lower_by_rank,
    network_of,
    run_messages,
)

__all__ = [
    "LinkAccount",
    "MessageRun",
    "lower_by_rank",
    "network_of",
    "run_messages",
]
