"""Exactly where the message kernel agrees with the phase kernel, on every rank and in every number.

A phase is *even* when all members, having started together, have done their part together, after as
long as the phase kernel says.  The kernels agree where every phase is even and

- all ranks run the same operators (or the ranks of a stage do, and stages hand on messages), so
  that all lines of a collective are at the same point at all times; or
- ranks do what they like, but each collective keeps to one dimension, so that it has one line, and
  no two lines of a ring are interleaved, so that no two share a link.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Dimension,
    FullyConnected,
    Group,
    Npu,
    Ring,
    SubgroupBandwidth,
    Topology,
    Workload,
)
from tests.support.examples import examples
from tests.support.messages import both
from tests.support.programs import (
    collective_models,
    pipelines,
    tangles,
    topologies,
    training,
    uneven,
)

ALL_TO_ALL = CollectiveKind.ALL_TO_ALL
Draw = Callable[[tuple[int, ...]], st.SearchStrategy[Workload]]


def is_even_on_a_ring(dim: Dimension, p: int, stride: int, kinds: set[CollectiveKind]) -> bool:
    """Whether the links of a Ring give the group what the phase kernel takes for granted."""
    if p == 1 or p * stride == dim.size or (stride == 1 and p == 2):
        return True
    # One member of a line meets less latency, and the middle of a line is done last.
    return stride == 1 and not dim.latency and ALL_TO_ALL not in kinds


def is_even_on_a_switch(algorithm: str, p: int) -> bool:
    """Whether all members are done together: in trees, and with partners, they are not."""
    if algorithm == "double_binary_tree":
        return p <= 2
    return algorithm != "rabenseifner" or p & (p - 1) == 0


def kinds_of(workload: Workload, group: str) -> set[CollectiveKind]:
    works = [operator.work for graph in workload.graphs for operator in graph]
    return {work.kind for work in works if isinstance(work, Collective) and work.group == group}


def evened(
    topology: Topology, model: CollectiveModel, workload: Workload
) -> tuple[Topology, CollectiveModel]:
    """Without latency where that is enough to make all phases even, another block where not."""
    dims, algorithms = list(topology.dims), list(model.algorithms)
    for name, group in workload.groups.items():
        kinds = kinds_of(workload, name)
        for d, (p, stride) in enumerate(zip(group.sizes, group.strides, strict=True)):
            if not is_even_on_a_switch(algorithms[d], p):
                algorithms[d] = "halving_doubling"
            if dims[d].block == Ring() and not is_even_on_a_ring(dims[d], p, stride, kinds):
                dims[d] = dataclasses.replace(dims[d], latency=0)
                if not is_even_on_a_ring(dims[d], p, stride, kinds):
                    dims[d] = dataclasses.replace(dims[d], block=FullyConnected())
                    algorithms[d] = "auto"
    return Topology(tuple(dims)), dataclasses.replace(model, algorithms=tuple(algorithms))


@st.composite
def cases(draw: st.DrawFn, programs: tuple[Draw, ...]) -> tuple[Workload, Cluster]:
    """Even phases on up to 16 NPUs, a ring in most of the topologies."""
    topology = draw(topologies(max_npus=16, max_dims=3))
    if draw(st.booleans()):
        first = dataclasses.replace(topology.dims[0], block=Ring())
        topology = Topology((first, *topology.dims[1:]))
    model = dataclasses.replace(
        draw(collective_models(topology)),
        chunks=draw(st.integers(1, 4)),
        subgroup_bandwidth=SubgroupBandwidth.PHYSICAL,
    )
    workload = draw(draw(st.sampled_from(programs))(topology.sizes))
    topology, model = evened(topology, model, workload)
    npu = Npu(reduce_bandwidth=draw(st.sampled_from([None, 3.3e9, 1e12])))
    return workload, Cluster(topology, npu, model)


def in_one_dimension(workload: Workload) -> Workload:
    """The same operators, the groups cut down to their first dimension and without strides."""

    def cut(group: Group) -> Group:
        first = next((d for d, p in enumerate(group.sizes) if p > 1), 0)
        sizes = tuple(p if d == first else 1 for d, p in enumerate(group.sizes))
        return Group(sizes, (1,) * len(sizes))

    groups = {name: cut(group) for name, group in workload.groups.items()}
    return dataclasses.replace(workload, groups=groups)


def lone_lines(sizes: tuple[int, ...]) -> st.SearchStrategy[Workload]:
    return uneven(sizes).map(in_one_dimension)


def check_every_number(workload: Workload, cluster: Cluster) -> None:
    """Times to the picosecond, shares of time and bytes to the last digits."""
    phases, run = both(workload, cluster)
    for name in ("time", "compute", "exposed", "busy"):
        assert np.array_equal(getattr(phases, name), getattr(run.measures, name)), name
    for name in ("exposed_by_dim", "exposed_by_tally", "bytes_sent"):
        by_phase, by_message = getattr(phases, name), getattr(run.measures, name)
        np.testing.assert_allclose(by_message, by_phase, rtol=1e-9, atol=1e-3, err_msg=name)


@examples(60)
@given(cases((training, tangles)))
def test_ranks_in_step(case: tuple[Workload, Cluster]) -> None:
    check_every_number(*case)


@examples(30)
@given(cases((pipelines,)))
def test_stages_in_step(case: tuple[Workload, Cluster]) -> None:
    check_every_number(*case)


@examples(40)
@given(cases((lone_lines,)))
def test_lines_by_themselves(case: tuple[Workload, Cluster]) -> None:
    check_every_number(*case)
