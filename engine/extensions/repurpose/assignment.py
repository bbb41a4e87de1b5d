"""Which worker holds which unit: Munkres' assignment, workers with room for several."""

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.extensions.repurpose.problem import Places
from dimsweep.engine.workload.trained import Values


def assign(cost: Values, slots: NDArray[np.int64]) -> Places:
    """The cheapest workers of n units, shape (n,), where ``cost`` is of shape (n, K) and worker k
    holds ``slots[k]`` of them, n in all (Munkres, J. SIAM 1957, on a column for each slot)."""
    from scipy.optimize import linear_sum_assignment

    worker = np.repeat(np.arange(len(slots)), slots)
    # SciPy's method is fast where many columns are equal, and slow where many rows are.
    rows, columns = linear_sum_assignment(cost[:, worker])
    return worker[columns[np.argsort(rows)]]


def contiguous(slots: NDArray[np.int64]) -> Places:
    """The first units on the first worker, the next ones on the second, and so on."""
    return np.repeat(np.arange(len(slots)), slots)
