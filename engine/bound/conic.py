"""Cone programs (convex optimisation) over bandwidths, and lower bounds proven by multipliers."""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.lower.program import Floats, Ints

# --- certificates ---------------------------------------------------------------------------------
# A proven lower bound from a solver's multipliers, by arithmetic that trusts no solver.
#
# The problem is: minimise sum_i max_p a_pi / z_i (p within each group, the groups added) over z in
# a
# box with ``equal @ z == ends`` and ``less @ z <= 0``.  Any weights lambda >= 0 of the pieces that
# add up to one in each group, any nu, and any y >= 0 give, with a = sum_p lambda_p a_p and
# q = nu @ equal + y @ less, for every feasible z
#
#     sum_i max_p a_pi / z_i  >=  sum_i a_i / z_i + q_i z_i  -  nu @ ends
#
# since a maximum is at least any mean, and the terms added are at most zero.  The right side
# separates, and each term has its least value in the box in closed form: 2 sqrt(a q) at sqrt(a /
# q),
# or at an end of the box.  So poor multipliers make the bound loose, never wrong.


# Products and sums of at most a few thousand terms.
_ROUNDING = 1e-13


class Cone(NamedTuple):
    """The set of z (n,) with ``equal @ z == ends``, ``less @ z <= 0``, ``low <= z <= high``."""

    equal: Floats  # (E, n)
    ends: Floats  # (E,)
    less: Floats  # (L, n)
    low: Floats  # (n,)
    high: Floats  # (n,)


class Multipliers(NamedTuple):
    """Dual variables of the pieces (P,), the equalities (E,) and the inequalities (L,)."""

    pieces: Floats
    equal: Floats
    less: Floats


def certify(pieces: Floats, group: Ints, cone: Cone, multipliers: Multipliers) -> float:
    """Return a proven lower bound on the least sum, over groups, of the largest piece at 1/z.

    ``pieces`` (P, n) are nonnegative, ``group`` (P,) is the group of each. Any ``multipliers`` give
    a valid bound.
    """
    slope = mean_piece(pieces, group, multipliers)
    if slope is None:
        return -np.inf
    less = np.maximum(multipliers.less, 0.0)
    force = multipliers.equal @ cone.equal + less @ cone.less
    noise = np.abs(multipliers.equal) @ np.abs(cone.equal) + less @ np.abs(cone.less)
    terms = [
        _minimum_term(*term) for term in zip(slope, force, noise, cone.low, cone.high, strict=True)
    ]
    ends = multipliers.equal * cone.ends
    return float(sum(terms) - ends.sum() - _ROUNDING * np.abs(ends).sum())


def mean_piece(pieces: Floats, group: Ints, multipliers: Multipliers) -> Floats | None:
    """Return the sum over groups of the weighted mean of their pieces, (n,).

    The weights are the ``multipliers`` of the pieces. ``None`` if a group has no weight.
    """
    weight = np.maximum(multipliers.pieces, 0.0)
    total = np.bincount(group, weight)
    if (total <= 0).any():
        return None
    mean: Floats = (weight / total[group]) @ pieces
    return mean


def _minimum_term(a: float, q: float, noise: float, low: float, high: float) -> float:
    """Return the minimum of a/z + q z over z in [low, high], less the possible rounding error."""
    if q > 0:
        at = min(max(np.sqrt(a / q), low), high)
    elif np.isfinite(high) or q == 0:
        at = high
    else:
        return -np.inf
    if at == 0 or at == np.inf:  # then a or q is zero
        return 0.0
    return float(a / at * (1 - _ROUNDING) + q * at - _ROUNDING * noise * at)


# --- cone programs --------------------------------------------------------------------------------
# One second-order cone program: the sum over groups of the maximum of pieces a/z, on a cone.
#
# Each reciprocal is a variable u_i >= 1/z_i, which is the cone |(2, z_i - u_i)| <= z_i + u_i; then
# the pieces are linear (Lobo et al., "Applications of second-order cone programming", 1998).


class Solution(NamedTuple):
    """The point z (n,) that a solver found, and its multipliers."""

    z: Floats  # (n,)
    multipliers: Multipliers


def solve(pieces: Floats, group: Ints, cone: Cone, unit: Floats) -> Solution | None:
    """Return the z in ``cone`` that minimises the sum, over groups, of the largest piece at 1/z.

    The solver is Clarabel; ``None`` if it finds no solution. ``pieces`` (P, n) are nonnegative;
    ``group`` (P,) counts from 0. ``unit`` (n,) > 0 is an estimate of z: the solver is more exact if
    all its numbers are close to one. The cone's box serves certificates alone; it follows from the
    other rules.
    """
    # A tenth of a second to import, and most runs optimise nothing.
    import clarabel
    from scipy.sparse import csc_matrix

    n, n_groups = len(cone.low), int(group.max()) + 1
    # A reciprocal that no piece asks for would have no upper end; z >= 0 then needs a row.
    asked = pieces.any(axis=0)
    active = np.flatnonzero(asked)
    m = len(active)
    width = n + m + n_groups

    rules, last = len(cone.less), len(cone.less) + len(pieces)
    less = np.zeros((last + n - m, width))
    less[:rules, :n] = cone.less * unit
    less[rules:last, n : n + m] = (pieces / unit)[:, active]
    less[np.arange(rules, last), n + m + group] = -1.0
    less[last:, :n] = -np.eye(n)[~asked]
    equal = np.zeros((len(cone.equal), width))
    equal[:, :n] = cone.equal * unit
    cones = np.zeros((3 * m, width))
    for k, i in enumerate(active.tolist()):
        cones[3 * k, [i, n + k]] = -1.0, -1.0
        cones[3 * k + 2, [i, n + k]] = -1.0, 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    found = clarabel.DefaultSolver(
        csc_matrix((width, width)),
        np.concatenate([np.zeros(n + m), np.ones(n_groups)]),
        csc_matrix(np.vstack([equal, less, cones])),
        np.concatenate([cone.ends, np.zeros(len(less)), np.tile([0.0, 2.0, 0.0], m)]),
        [
            clarabel.ZeroConeT(len(equal)),
            clarabel.NonnegativeConeT(len(less)),
            *[clarabel.SecondOrderConeT(3)] * m,
        ],
        settings,
    ).solve()
    z, dual = unit * np.array(found.x)[:n], np.array(found.z)
    if not (np.isfinite(z).all() and np.isfinite(dual).all()) or "Infeasible" in str(found.status):
        return None
    y = dual[len(equal) : len(equal) + len(less)]
    return Solution(z, Multipliers(y[rules:last], dual[: len(equal)], y[:rules]))
