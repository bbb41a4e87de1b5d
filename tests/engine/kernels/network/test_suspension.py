"""Messages that are suspended for others: the compiled kernel against its witness on SimPy."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    GraphBuilder,
    Program,
    Receive,
    Send,
    Topology,
    Workload,
    place,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.extensions.wafer import FredWafer, MeshWafer
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank, may_suspend
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.kernels.network.links import _scale_up
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.network import Interconnect
from tests.support.examples import examples
from tests.support.kernels import check_equal, outcome

SIZES = (2, 2, 3)
WAFERS = (
    MeshWafer(4, 3, latency=100, pieces=2, preempts=True),
    FredWafer(3, trunk=1.5e12, latency=50, controllers=4, pieces=3, preempts=True),
    FredWafer(3, trunk=0.7e12, reduces=False, controllers=4, pieces=5, preempts=True),
    FredWafer(3, controllers=4, pieces=2, multicasts=False, preempts=True),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Operators of all classes that begin at all times, each in a stream of its own."""
    graph = GraphBuilder()
    sizes = st.sampled_from([1.0, 3e3, 1e5, 777_777.0])
    for number in range(draw(st.integers(2, 6))):
        delay = draw(st.sampled_from([0, 0, 1, 1000, 60_000, 333_333]))
        before = [graph.add(f"wait {number}", Compute(duration=delay))]
        kind = draw(st.sampled_from(list(CollectiveKind)))
        name, size = f"work {number}", draw(sizes)
        match draw(st.sampled_from(["tensor", "data", "stages", "load", "store"])):
            case "stages":
                graph.add(name, Send(size, (0, 1, 0), number), before)
                graph.add(f"{name} there", Receive((0, -1, 0), number))
            case "load" | "store" as what:
                graph.add(name, Access(size, what == "store", "data", shared=True), before)
            case group:
                graph.add(name, Collective(kind, size, group, stream=name), before)
    wafer = draw(st.sampled_from(WAFERS))
    network = NetworkModel(
        interconnect=wafer,
        switching=draw(st.sampled_from(list(Switching))),
        packet=draw(st.sampled_from([0.0, 300.0, 4096.0])),
        window=draw(st.sampled_from([None, None, 2])),
    )
    topology = Topology.build(
        "Switch(2)_Switch(2)_Switch(3)", bandwidth=[3e12] * 3, latency=[0] * 3
    )
    model = CollectiveModel(chunks=draw(st.integers(1, 4)))
    cluster = Cluster(topology, collectives=model, network=network, memory=EdgeIo(1e12))
    groups = place({"tensor": 2, "pipeline": 2, "data": 3}, SIZES)
    return lower_by_rank(Workload((graph.build(),), groups), cluster)


@examples(60)
@given(programs())
def test_the_same_as_the_witness(program: Program) -> None:
    told = [outcome(run, program, record=True) for run in (run_messages, run_on_simpy)]
    check_equal(*told)


def training(wafer: Interconnect, *, packet: float = 0.0, chunks: int = 4) -> Program:
    """Tensor and data parallelism at once, beside loads."""
    graph = GraphBuilder()
    for name, size in (("tensor", 3e6), ("data", 3e7)):
        work = Collective(CollectiveKind.ALL_REDUCE, size, name, stream=name)
        graph.add(name, work)
    graph.add("load", Access(2e6, group="data", shared=True))
    topology = Topology.build("Switch(4)_Switch(3)", bandwidth=[3e12] * 2, latency=[0] * 2)
    network = NetworkModel(interconnect=wafer, packet=packet)
    model = CollectiveModel(chunks=chunks)
    cluster = Cluster(topology, collectives=model, network=network, memory=EdgeIo(1e12))
    groups = place({"tensor": 4, "data": 3}, (4, 3))
    return lower_by_rank(Workload((graph.build(),), groups), cluster)


def suspensions(run: MessageRun) -> int:
    """How often a link was held again by what had held it just before what came between."""
    return sum(
        one.name == third.name != two.name and one.end == two.start and two.end == third.start
        for link in run.links
        for one, two, third in zip(link.spans, link.spans[1:], link.spans[2:], strict=False)
    )


@pytest.mark.long
@pytest.mark.parametrize("wafer", WAFERS)
def test_much_is_suspended_where_tables_have_to_grow(wafer: Interconnect) -> None:
    program = training(wafer, packet=4096.0, chunks=40)
    run = run_messages(program, record=True)
    check_equal(run, run_on_simpy(program, record=True))
    other = training(dataclasses.replace(wafer, preempts=False), packet=4096.0, chunks=40)  # type: ignore[type-var]
    assert may_suspend(program)
    assert not may_suspend(other)
    assert suspensions(run) > suspensions(run_messages(other, record=True))


@examples(300)
@given(
    st.integers(1, 2**62).flatmap(
        lambda whole: st.tuples(st.integers(0, whole), st.integers(0, 2**62), st.just(whole))
    )
)
def test_a_share_is_exact_whatever_the_product(numbers: tuple[int, int, int]) -> None:
    part, of, whole = numbers
    assert _scale_up.py_func(part, of, whole) == -(-part * of // whole)
