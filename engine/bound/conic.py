"""One second-order cone program: the sum over groups of the maximum of pieces a/z, on a cone.

Each reciprocal is a variable u_i >= 1/z_i, which is the cone |(2, z_i - u_i)| <= z_i + u_i; then
the pieces are linear (Lobo et al., "Applications of second-order cone programming", 1998).
"""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.bound.certificate import Cone, Multipliers
from dimsweep.engine.lower.program import Floats, Ints


class Solution(NamedTuple):
    z: Floats  # (n,)
    multipliers: Multipliers


def solve(pieces: Floats, group: Ints, cone: Cone, unit: Floats) -> Solution | None:
    """The optimum over ``cone`` as Clarabel finds it, or ``None`` where it finds none.

    ``pieces`` (P, n) >= 0; ``group`` (P,) counts from 0.  ``unit`` (n,) > 0 is about
    where z will be: the solver is the more exact the closer all its numbers are to one.
    The cone's box serves certificates alone: what it says follows from the other rules.
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
