"""Where the alternation starts: units that belong together, found by a spectral clustering."""

from itertools import pairwise

import numpy as np

from dimsweep.engine.extensions.repurpose.assignment import assign, contiguous
from dimsweep.engine.extensions.repurpose.problem import Places, Problem
from dimsweep.engine.workload.trained import Values

_ROUNDS = 30  # of k-means; it stops before that


def clustered(problem: Problem, seed: int) -> list[Places]:
    """Places of all boundaries' units: those that are tied by much of the layers' maps together.

    The units of all boundaries are a graph, tied by the losses without them.  Its normalised
    adjacency has its K largest eigenvectors where K parts hang together (Ng, Jordan and Weiss, NIPS
    2001); k-means with as much room as workers have cuts it, all boundaries around the same
    centres.
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
    """k-means, and at its end clusters that are as large as the workers' slots, at every boundary;
    ``points`` are of length 1."""
    together = np.concatenate(points)
    centres = _apart(together, len(problem.workers.speed), rng)
    nearest = np.zeros(0)
    for _ in range(_ROUNDS):
        before, nearest = nearest, (together @ centres.T).argmax(axis=1)
        if np.array_equal(before, nearest):
            break
        for worker in np.unique(nearest):
            centre = together[nearest == worker].sum(axis=0)
            centres[worker] = centre / max(float(np.linalg.norm(centre)), 1e-12)
    return [assign(-each @ centres.T, problem.workers.slots(len(each))) for each in points]


def _apart(points: Values, k: int, rng: np.random.Generator) -> Values:
    """``k`` of the points, each as far as can be from those before."""
    chosen = [points[rng.integers(len(points))]]
    nearest = points @ chosen[0]
    for _ in range(k - 1):
        chosen.append(points[int(nearest.argmin())])
        nearest = np.maximum(nearest, points @ chosen[-1])
    return np.stack(chosen)
