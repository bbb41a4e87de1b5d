"""The inputs of an executor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dimsweep.sweeper.config.study import Executor as ExecutorConfig
from dimsweep.sweeper.ledger.rows import Cell

Notify = Callable[[str], None]  # receives an executor's messages to the user, a line each


@dataclass(frozen=True)
class Setup:
    """The inputs from which an executor is built."""

    #: the place and the limits of simulations
    config: ExecutorConfig
    cells: Sequence[Cell]
    #: columns of the rows
    schema: pa.Schema
    notify: Notify
