"""What a rank does with its time: compute, exposed communication, by operator and by dimension."""

from collections.abc import Sequence

import numpy as np

from dimsweep.engine.kernels.messages.run import Measures, measures_by_rank
from dimsweep.engine.kernels.reference.clock import Clock


class RankAccount:
    """A rank's time, booked as :mod:`engine.kernels.phase.kernel` books a class's.

    Call :meth:`book` before anything of the rank changes.  Communication is exposed while the
    rank computes nothing; an instant of it is shared equally among the operators in flight, and
    among the dimensions that serve the rank, or from which the last latencies of a flow pass.
    """

    def __init__(self, clock: Clock, n_dims: int, n_tallies: int) -> None:
        self.computing = False
        self.in_flight = np.zeros(n_tallies, dtype=np.int64)  # operators
        self.serving = np.zeros(n_dims, dtype=np.int64)  # phases
        self.late = np.zeros(n_dims, dtype=np.int64)  # flows from each whose last latencies pass
        self.compute = self.exposed = 0  # ps
        self.exposed_by_tally = np.zeros(n_tallies)
        self.exposed_by_dim = np.zeros(n_dims + 1)  # the last: waiting, no dimension serves
        self.busy = np.zeros(n_dims, dtype=np.int64)
        self.bytes_sent = [0.0] * n_dims
        self.end = 0
        self._clock, self._booked = clock, 0

    def book(self) -> None:
        """Book the time since the last change."""
        span, self._booked = self._clock.ps - self._booked, self._clock.ps
        if not span:
            return
        self.busy[self.serving > 0] += span
        if self.computing:
            self.compute += span
            return
        operators = self.in_flight.sum()
        if operators:
            self.exposed += span
            self.exposed_by_tally += span * self.in_flight / operators
            dims = np.flatnonzero(self.serving + self.late)
            if len(dims):
                self.exposed_by_dim[dims] += span / len(dims)
            else:
                self.exposed_by_dim[-1] += span


def measures_of(accounts: Sequence[RankAccount]) -> Measures:
    """The accounts of all ranks as one point of the phase kernel's measures."""

    def each(name: str) -> np.ndarray:
        return np.array([getattr(account, name) for account in accounts])

    names = ("end", "compute", "exposed", "exposed_by_dim", "exposed_by_tally", "busy")
    return measures_by_rank(**{name: each(name) for name in (*names, "bytes_sent")})
