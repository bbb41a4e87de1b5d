"""Requests to a collective library, and answers: the phases in each dimension."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.steps import PhaseSteps, Setting
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import Group

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


class Request(NamedTuple):
    """A collective to run: kind, bytes held, and the setting in each dimension, innermost first.

    It only has the dimensions in which its group has several members.
    """

    kind: CollectiveKind
    held: float
    settings: tuple[Setting, ...]
    in_node: int
    bandwidth: tuple[float, ...]
    measured_at: tuple[float, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of members of the group that runs the collective."""
        return math.prod(setting.p for setting in self.settings)

    @property
    def ranks_a_node(self) -> int:
        """Number of the group's members on each node."""
        return self.ranks_before(self.in_node)

    @property
    def nodes(self) -> int:
        """Number of nodes that have members of the group."""
        return self.ranks // self.ranks_a_node

    @property
    def n_bytes(self) -> float:
        """Size in bytes as nccl-tests count it: the larger of a member's input and output."""
        return self.held * (self.ranks if self.kind is CollectiveKind.ALL_GATHER else 1)

    def ranks_before(self, i: int) -> int:
        """Return the number of members in the dimensions before ``settings[i]``."""
        return math.prod(setting.p for setting in self.settings[:i])


def request_for(kind: CollectiveKind, held: float, group: Group, cluster: Cluster) -> Request:
    """Return the library request of a collective over ``group``, with ``held`` bytes a member.

    Raises :class:`DimsweepError` for measurements of another number of dimensions.
    """
    dims, model = cluster.topology.dims, cluster.collectives
    own = tuple(dim.bandwidth for dim in dims)
    then = own if model.timings is None else model.timings.bandwidth or own
    if len(then) != len(own):
        raise DimsweepError(
            f"{len(then)} bandwidths for {len(own)} dimensions; give one for each",
            where="collective.measured_bandwidth",
            code="mismatch",
        )
    used = [d for d, members in enumerate(group.sizes) if members > 1]
    policy = model.subgroup_bandwidth
    return Request(
        kind,
        held,
        tuple(
            Setting(dims[d].block, dims[d].size, group.sizes[d], group.strides[d], policy)
            for d in used
        ),
        in_node=sum(d < model.node_dimensions for d in used),
        bandwidth=tuple(own[d] for d in used),
        measured_at=tuple(then[d] for d in used),
    )


class Phases(NamedTuple):
    """The phases of a collective in one dimension: reduce-scatter, all-gather, fused all-reduce.

    An all-to-all has ``scatter`` only; ``fused`` is the all-reduce of the last dimension.
    """

    scatter: PhaseSteps
    gather: PhaseSteps | None = None
    fused: PhaseSteps | None = None


class Answer(NamedTuple):
    """A library's plan for a collective: the number of equal ``chunks``, and the phases."""

    chunks: int
    phases: tuple[Phases, ...]
