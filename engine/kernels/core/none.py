"""Numbers that mean the same in every kernel: for none, and for what an operator does."""

from dimsweep.engine.units import MAX_PICOSECONDS

NONE = -1  # no record: the rows of a table count from zero
NEVER = 2**63 - 1  # no time: later than all that a clock counts to
LONGEST = MAX_PICOSECONDS  # what would last longer cannot be simulated

WAITING, QUEUED, RUNNING, DONE = range(4)  # states of an operator
