"""What an executor is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dimsweep.sweeper.config.study import Executor as ExecutorConfig
from dimsweep.sweeper.ledger.rows import Cell

Notify = Callable[[str], None]  # what an executor has to say while it works, a line at a time


@dataclass(frozen=True)
class Setup:
    """Where and within which limits the trials of ``cells`` are simulated, the ``schema`` of their
    rows, and the receiver of messages meanwhile."""

    config: ExecutorConfig
    cells: Sequence[Cell]
    schema: pa.Schema
    notify: Notify
