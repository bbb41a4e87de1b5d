"""Runs that the kernels of messages are compared in, for the tests of both rooms."""

import dataclasses
import re

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from dimsweep.engine import Cluster, DimsweepError, Npu, Ring, Switch, Topology, Workload
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.kernels.messages import MessageRun
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.degrade import Change, Selection
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from tests.support.programs import (
    collective_models,
    pipelines,
    tangles,
    topologies,
    training,
    uneven,
)

_NO_REDUCTION = r".*(share no switch that|flows and packets cannot be reduced by switches).*"
PROGRAMS = (training, tangles, uneven, pipelines)


@st.composite
def fabrics(draw: st.DrawFn, topology: Topology) -> tuple[Fabric, ...]:
    """What may stand for each dimension."""
    choices: list[Fabric] = []
    for dim in topology.dims:
        own: list[Fabric] = [Auto()]
        if dim.block == Ring():
            own.append(Mesh())
        if dim.block == Switch() and dim.size % 4 == 0:
            own += [Clos(2, 2), Clos(2, 4, oversubscription=2.0), Dragonfly(2, 2)]
        choices.append(draw(st.sampled_from(own)))
    return tuple(choices)


@st.composite
def graphs(draw: st.DrawFn, n: int) -> Network:
    """A ring with chords, some of them through a switch, of unequal links."""
    graph = nx.DiGraph()
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += [(i, draw(st.sampled_from(["s", "t"]))) for i in range(0, n, 2)]
    for i, (a, b) in enumerate(pairs):
        buffer = draw(st.sampled_from([None, None, 3e5]))
        for ends in ((a, b), (b, a)):
            bandwidth = 1e9 / (1 + i % 3)
            graph.add_edge(*ends, bandwidth=bandwidth, latency=500 * i, buffer=buffer)
    return Network(graph)


@st.composite
def networks(draw: st.DrawFn, topology: Topology) -> NetworkModel:
    own_graph = topology.n_npus > 2 and draw(st.integers(0, 3)) == 0
    return NetworkModel(
        fabrics=() if own_graph else draw(fabrics(topology)),
        graph=draw(graphs(topology.n_npus)) if own_graph else None,
        routing=draw(st.sampled_from([None, Routing.SHORTEST, Routing.ECMP, Routing.FAT_TREE])),
        seed=draw(st.integers(0, 3)),
        switching=draw(st.sampled_from(list(Switching))),
        packet=draw(st.sampled_from([0.0, 1024.0])),
        buffer=draw(st.sampled_from([None, None, 2.0**22, 2.0**17])),
        window=draw(st.sampled_from([None, None, 1, 3])),
        packets=PacketModel(priorities=draw(st.sampled_from([1, 3]))),
        degrade=draw(changes(topology.n_npus)),
    )


@st.composite
def changes(draw: st.DrawFn, n: int) -> tuple[Change, ...]:
    """What may become of a network, mostly nothing: it may fall into parts, too."""
    of = st.builds(Selection, draw=st.just(1), seed=st.integers(0, 3))
    share = st.sampled_from([0.5, 0.9])
    slower = st.builds(Change, link=of, bandwidth=share) if n > 1 else st.nothing()
    down = st.builds(Change, link=of, down=st.just(True)) if n > 1 else st.nothing()
    slow = st.builds(Change, npu=of, speed=share)
    return tuple(draw(st.just([]) | st.lists(slower | down | slow, max_size=2)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    topology = draw(topologies(max_npus=16, max_dims=3))
    chunks = draw(st.integers(1, 4))
    model = dataclasses.replace(draw(collective_models(topology)), chunks=chunks)
    npu = Npu(reduce_bandwidth=draw(st.sampled_from([None, 3.3e9, 1e12])))
    workload = draw(draw(st.sampled_from(PROGRAMS))(topology.sizes))
    return workload, Cluster(topology, npu, model, draw(networks(topology)))


def outcome(run: object, program: object, **options: object) -> MessageRun | str:
    """What a kernel says: a run, or why there is none.  Of several lines of NPUs that share no
    switch, each kernel names the one that it comes to first; and where nobody carries reductions,
    it says that, or this."""
    try:
        return run(program, **options)
    except DimsweepError as error:
        return re.sub(_NO_REDUCTION, "nothing reduces", str(error), flags=re.DOTALL)


def check_equal(one: MessageRun | str, other: MessageRun | str) -> None:
    """Every number of two runs, or what is told instead."""
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for name in one.measures._fields[:-1]:
        a, b = getattr(one.measures, name), getattr(other.measures, name)
        if name.startswith("exposed_by"):
            # The witness adds up each share of an instant, the compiled kernel differences of sums
            # (engine.kernels.core.accounts), so that the last digits may differ.
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-3, err_msg=name)
        else:
            assert np.array_equal(a, b), name
    for name in ("links", "operators", "phases", "n_messages"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.traffic is None) == (other.traffic is None)
    if one.traffic is not None and other.traffic is not None:
        assert one.traffic.operators == other.traffic.operators
        for a, b in zip(one.traffic[1:3], other.traffic[1:3], strict=True):
            assert np.array_equal(a, b)


def check_witness(program: Program, fidelity: Fidelity = Fidelity.MESSAGE) -> MessageRun | str:
    """The compiled kernel's run of a program, or why there is none, compared with the readable
    one's."""
    run, witness = (
        outcome(kernel, program, fidelity=fidelity, record=True)
        for kernel in (run_messages, run_on_simpy)
    )
    check_equal(run, witness)
    return run


def run_witnessed(program: Program) -> MessageRun:
    """The same, of a program that can finish; else the compiled kernel's error."""
    run = run_messages(program, record=True)
    check_equal(run, run_on_simpy(program, record=True))
    return run
