"""Placement of units (neurons, channels) on workers: spectral clustering, then alternation.

The alternation prunes for the current places, then assigns units anew, until nothing improves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.extensions.repurpose.problem import Mask, Places, Problem
from dimsweep.engine.workload.trained import Values

_SWEEPS = 30  # over all boundaries; few are needed
_GAIN = 1e-3  # of the objective, for which another sweep is worth its time


@dataclass(frozen=True)
class Placement:
    """The worker of each unit, and the pairs of units whose weights are kept."""

    places: tuple[Places, ...]
    masks: tuple[Mask, ...]
    objectives: tuple[float, ...]  # at the start, and after each step


def alternate(problem: Problem, start: Sequence[Places]) -> Placement:
    """Return a placement improved from ``start`` until no boundary's assignment improves it.

    The objective never rises. A step assigns the units of one boundary, as outputs of the layer
    before it and as inputs of the layer behind it, so that both agree on their places; then it
    prunes both layers.
    """
    places = list(start)
    state = Placement(tuple(places), tuple(problem.prune(places)), ())
    objectives = [problem.objective(state.places, state.masks)]
    for _ in range(_SWEEPS):
        before = objectives[-1]
        for boundary in range(len(places)):
            for shared in (True, False):  # the bolder step first, if it gains anything
                moved = _step(problem, state, boundary, shared)
                objective = problem.objective(moved.places, moved.masks)
                if objective < objectives[-1]:
                    state = moved
                    objectives.append(objective)
                    break
        if objectives[-1] > before * (1 - _GAIN):
            break
    return Placement(state.places, state.masks, tuple(objectives))


def _step(problem: Problem, state: Placement, boundary: int, shared: bool) -> Placement:
    """Return the placement after assigning a boundary's units and pruning the layers around it."""
    places, masks = list(state.places), list(state.masks)
    cost = np.zeros((problem.units[boundary], len(problem.workers.speed)))
    above, below = boundary - 1, boundary  # the layers that it is the output, and the input of
    if boundary > 0:
        layer = problem.layers[above]
        cost += layer.as_outputs(masks[above], places[above], places[boundary], shared=shared)
    if boundary < len(problem.layers):
        cost += problem.layers[below].as_inputs(places[boundary + 1])
    places[boundary] = assign(cost, problem.workers.slots(len(cost)))
    for n in (above, below):
        if 0 <= n < len(problem.layers):
            masks[n] = problem.layers[n].prune(places[n], places[n + 1])
    return Placement(tuple(places), tuple(masks), ())


# --- assignment ----------------------------------------------------------------------------------


def assign(cost: Values, slots: NDArray[np.int64]) -> Places:
    """Return the workers of n units, shape (n,), with the least total ``cost`` of shape (n, K).

    Worker k holds ``slots[k]`` units, n in all (Munkres, J. SIAM 1957, with a column for each
    slot).
    """
    from scipy.optimize import linear_sum_assignment

    worker = np.repeat(np.arange(len(slots)), slots)
    # SciPy's method is fast where many columns are equal, and slow where many rows are.
    rows, columns = linear_sum_assignment(cost[:, worker])
    return worker[columns[np.argsort(rows)]]


def contiguous(slots: NDArray[np.int64]) -> Places:
    """Return the worker of each unit: first units on the first worker, next on the second, ..."""
    return np.repeat(np.arange(len(slots)), slots)


# --- the start -----------------------------------------------------------------------------------


_ROUNDS = 30  # of k-means; it stops before that


def clustered(problem: Problem, seed: int) -> list[Places]:
    """Return places of all boundaries' units that keep strongly coupled units together.

    The units of all boundaries form a graph, weighted by the losses without each pair.  The K
    largest eigenvectors of its normalised adjacency separate K clusters (Ng, Jordan and Weiss, NIPS
    2001). k-means with the workers' capacities finds them, with the same centres for all
    boundaries.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    k, ends = len(problem.workers.speed), np.cumsum([0, *problem.units])
    n = int(ends[-1])
    if k == 1 or n <= k + 1:
        return [contiguous(problem.workers.slots(units)) for units in problem.units]
    degree = np.zeros(n)
    for layer, a, b, c in zip(problem.layers, ends, ends[1:], ends[2:], strict=False):
        degree[a:b] += layer.loss.sum(axis=0)
        degree[b:c] += layer.loss.sum(axis=1)
    scale = 1 / np.sqrt(np.maximum(degree, degree.max() * 1e-12))

    def adjacent(vector: Values) -> Values:
        scaled, out = scale * vector.ravel(), np.zeros(n)
        for layer, a, b, c in zip(problem.layers, ends, ends[1:], ends[2:], strict=False):
            out[b:c] += layer.loss @ scaled[a:b]
            out[a:b] += layer.loss.T @ scaled[b:c]
        return out * scale + vector.ravel()  # eigenvalues of 0 and more

    rng = np.random.default_rng(seed)
    operator = LinearOperator((n, n), matvec=adjacent, dtype=float)
    _, vectors = eigsh(operator, k=k, which="LA", v0=rng.standard_normal(n), tol=1e-2)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return _balanced(problem, [vectors[a:b] for a, b in pairwise(ends)], rng)


def _balanced(problem: Problem, points: list[Values], rng: np.random.Generator) -> list[Places]:
    """Return k-means clusters of each boundary's ``points``, which have length 1.

    The final clusters have the sizes of the workers' slots at every boundary.
    """
    together = np.concatenate(points)
    centres = _distant_points(together, len(problem.workers.speed), rng)
    nearest = np.zeros(0)
    for _ in range(_ROUNDS):
        before, nearest = nearest, (together @ centres.T).argmax(axis=1)
        if np.array_equal(before, nearest):
            break
        for worker in np.unique(nearest):
            centre = together[nearest == worker].sum(axis=0)
            centres[worker] = centre / max(float(np.linalg.norm(centre)), 1e-12)
    return [assign(-each @ centres.T, problem.workers.slots(len(each))) for each in points]


def _distant_points(points: Values, k: int, rng: np.random.Generator) -> Values:
    """Return ``k`` of the points, each as far as possible from those chosen before it."""
    chosen = [points[rng.integers(len(points))]]
    nearest = points @ chosen[0]
    for _ in range(k - 1):
        chosen.append(points[int(nearest.argmin())])
        nearest = np.maximum(nearest, points @ chosen[-1])
    return np.stack(chosen)
