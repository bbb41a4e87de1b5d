"""The closed-form model that LIBRA optimises: T(b) = K + sum_k max_d a_kd / b_d.

K is the compute, a_k the bytes that collective k moves in each dimension: chunks are taken to
pipeline perfectly, so that a collective lasts as long as its busiest dimension.  Latency, chunk
count and congestion do not enter (Won et al., LIBRA, ISPASS 2024).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.lower.program import Floats, Program
from dimsweep.engine.units import PICOSECONDS


@dataclass(frozen=True)
class ClosedForm:
    """``compute`` (seconds) and ``demand`` (K, D): each collective's bytes over the share of the
    bandwidth that its group can use."""

    compute: float
    demand: Floats

    def time(self, bandwidth: Floats) -> Floats:
        """Return seconds at bandwidths of shape (..., D) in bytes/s."""
        return self.compute + (self.demand / bandwidth[..., None, :]).max(axis=-1).sum(axis=-1)

    @property
    def sums(self) -> Floats:
        """No piece divides by a sum of bandwidths (see :class:`ConvexModel`)."""
        return np.zeros((0, self.demand.shape[1]))

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the pieces of a :class:`ConvexModel`: compute, and each kind of collective's
        busiest dimension."""
        kinds = self.kinds
        n, n_dims = kinds.shape
        busiest = (kinds * reciprocal).argmax(axis=1)
        result = np.zeros((n + 1, n_dims + 1))
        result[np.arange(n), busiest] = kinds[np.arange(n), busiest]
        result[n, n_dims] = self.compute
        return result

    @cached_property
    def kinds(self) -> Floats:
        """The demand with proportional rows added up: they are busiest in the same dimension."""
        used = self.demand[self.demand.any(axis=1)]
        shares = np.round(used / used.sum(axis=1, keepdims=True), 12)
        _, kind = np.unique(shares, axis=0, return_inverse=True)
        total = np.zeros((int(kind.max(initial=-1)) + 1, self.demand.shape[1]))
        np.add.at(total, kind.ravel(), used)
        return total


def closed_form(program: Program) -> ClosedForm:
    """Return the closed form of a program with one class of ranks and no overlap."""
    s, first = program.structure, _flows_of_first_class(program)
    compute = s.nodes["duration"][s.nodes["cls"] == 0].sum()
    return ClosedForm(float(compute) / PICOSECONDS, demand_of(program)[s.flows["form"][first]])


def demand_of(program: Program) -> Floats:
    """Return the bytes of every form (F, D) over the share of the bandwidth that its group
    can use."""
    return times_of(program).demand


def traffic(program: Program) -> Floats:
    """Return the bytes that an NPU of the first class sends in each dimension in an iteration,
    (D,)."""
    first = _flows_of_first_class(program)
    return times_of(program).bytes_sent[program.structure.flows["form"][first]].sum(axis=0)


def _flows_of_first_class(program: Program) -> NDArray[np.bool_]:
    s = program.structure
    return s.members["cls"][s.flows["member_start"]] == 0
