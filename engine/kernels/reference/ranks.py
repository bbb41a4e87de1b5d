"""What a rank does with its time: compute, exposed communication, by operator and by dimension."""

import numpy as np


class RankAccount:
    """Books a rank's time, as :mod:`engine.kernels.phase.kernel` does for a class.

    Call :meth:`until` before anything of the rank changes.  Communication is exposed while the
    rank computes nothing; an instant of it is shared equally among the operators in flight, and
    among the dimensions that serve the rank, or from which the last latencies of a flow pass.
    """

    def __init__(self, n_dims: int, n_tallies: int) -> None:
        self.computing = False
        self.in_flight = np.zeros(n_tallies, dtype=np.int64)  # operators
        self.serving = np.zeros(n_dims, dtype=np.int64)  # phases
        self.late = np.zeros(n_dims, dtype=np.int64)  # flows from each whose last latencies pass
        self.compute = self.exposed = 0  # ps
        self.by_tally = np.zeros(n_tallies)
        self.by_dim = np.zeros(n_dims + 1)  # the last: waiting, no dimension serves
        self.busy = np.zeros(n_dims, dtype=np.int64)
        self.end = 0
        self._clock = 0

    def until(self, now: int) -> None:
        """Book the time since the last change."""
        span, self._clock = now - self._clock, now
        if not span:
            return
        self.busy[self.serving > 0] += span
        if self.computing:
            self.compute += span
            return
        operators = self.in_flight.sum()
        if operators:
            self.exposed += span
            self.by_tally += span * self.in_flight / operators
            dims = np.flatnonzero(self.serving + self.late)
            if len(dims):
                self.by_dim[dims] += span / len(dims)
            else:
                self.by_dim[-1] += span
