"""Runs on networks of which something is slower or down, and on NPUs that are slow."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    GraphBuilder,
    Group,
    NetworkModel,
    Npu,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.extensions.wafer import MeshWafer
from dimsweep.engine.network import Change, Selection
from dimsweep.engine.workload.graph import Kernel
from tests.support.examples import examples
from tests.support.kernels import cases
from tests.support.programs import one_collective
from tests.support.refused import refused

MB = 1e6


def cluster(shape: str, *changes: Change) -> Cluster:
    """Links of 1 GB/s an NPU, without latency: a byte takes a nanosecond."""
    n = shape.count("(")
    topology = Topology.build(shape, bandwidth=[1e9] * n, latency=[0] * n)
    model = CollectiveModel(chunks=1)
    return Cluster(topology, collectives=model, network=NetworkModel(degrade=changes))


def milliseconds(shape: str, kind: CollectiveKind, *changes: Change) -> float:
    on = cluster(shape, *changes)
    workload = one_collective(kind, 12 * MB, on.topology.sizes)
    return simulate(workload, on, fidelity="message").time * 1e3


def test_a_slower_link_holds_up_whoever_waits_for_it() -> None:
    half = Change(link=Selection("NPU 3 -> switch d0 line 0"), bandwidth=0.5)
    # Each of 4 sends the 3 others 3 MB; NPU 3 takes twice as long, and all are received by then.
    assert milliseconds("Switch(4)", CollectiveKind.ALL_TO_ALL) == 9
    assert milliseconds("Switch(4)", CollectiveKind.ALL_TO_ALL, half) == 18


def test_messages_go_round_what_is_down() -> None:
    """A ring of 4 in which neighbours exchange; without a link theirs goes the long way."""
    one, both = (Change(link=Selection(f"NPU 0 {way} NPU 1"), down=True) for way in ("->", "<->"))
    whole = milliseconds("Ring(4)", CollectiveKind.ALL_REDUCE)
    assert whole < milliseconds("Ring(4)", CollectiveKind.ALL_REDUCE, one)
    assert whole < milliseconds("Ring(4)", CollectiveKind.ALL_REDUCE, both)


@examples(20)
@given(
    p=st.sampled_from([2, 4, 8, 16]),
    slow=st.integers(0, 15),
    fidelity=st.sampled_from(["message", "flow"]),
    share=st.sampled_from([0.5, 0.25]),
)
def test_rabenseifner_takes_as_much_longer_as_its_slowest_member(
    p: int, slow: int, fidelity: str, share: float
) -> None:
    """On a power of two: each round waits for the slow member, and no later one shares its link."""
    model = CollectiveModel(chunks=1, algorithms=("rabenseifner",))
    of_device = Change(link=Selection(f"NPU {slow % p} <-> switch d0 line 0"), bandwidth=share)
    times = [
        simulate(
            one_collective(CollectiveKind.ALL_REDUCE, p * MB, (p,)),
            replace(cluster(f"Switch({p})", *changes), collectives=model),
            fidelity=fidelity,
        ).time_ps
        for changes in ([], [of_device])
    ]
    assert times[1] * share == pytest.approx(times[0], abs=p)


def test_dimensions_stand_in_for_each_other() -> None:
    """Two switches of four joined by four of two, of which one is down: what it carried goes over
    another NPU of the node, so that this one's link has twice as much to carry."""
    down = Change(switch=Selection("switch d1 line 0"), down=True)
    times = [
        simulate(
            one_collective(CollectiveKind.ALL_REDUCE, 8 * MB, (1, 2)),
            cluster("Switch(4)_Switch(2)", *changes),
            fidelity=fidelity,
        ).time
        for changes in ([], [down])
        for fidelity in ("message", "flow")
    ]
    assert times[:2] == [0.008] * 2
    assert times[2] >= 2 * times[0]
    assert times[3] >= 2 * times[1]


def test_bandwidths_are_shares_of_whatever_the_program_is_moved_to() -> None:
    from dimsweep.engine.kernels.messages import lower_by_rank
    from dimsweep.engine.kernels.network import MessageRunner

    half = Change(link=Selection(dim=0), bandwidth=0.5)
    on = cluster("Switch(4)", half)
    workload = one_collective(CollectiveKind.ALL_TO_ALL, 12 * MB, (4,))
    runner = MessageRunner(lower_by_rank(workload, on))
    times = [int(runner.run([bandwidth]).measures.time[0]) for bandwidth in (1e9, 2e9, 4e9)]
    assert times == [18_000_000_000, 9_000_000_000, 4_500_000_000]


def test_phases_know_no_links() -> None:
    with pytest.raises(DimsweepError, match="fidelity=phase") as raised:
        simulate(
            one_collective(CollectiveKind.ALL_REDUCE, MB, (4,)),
            cluster("Switch(4)", Change(link=Selection(), bandwidth=0.5)),
        )
    assert raised.value.where == "network.degrade"
    assert "message, flow or packet" in raised.value.hint


def test_a_wafer_has_no_links_to_lose() -> None:
    changes = (Change(link=Selection(), bandwidth=0.5),)
    with refused("degrade", "unsupported", "wafer"):
        NetworkModel(interconnect=MeshWafer(4, 3), degrade=changes)


@pytest.mark.parametrize("fidelity", ["phase", "message", "flow", "packet"])
@pytest.mark.parametrize("fold", [True, False])
def test_all_wait_for_a_slow_npu(fidelity: str, fold: bool) -> None:
    graph = GraphBuilder()
    last = graph.add("work", Compute(duration=9_000_000))
    last = graph.add("all", Collective(CollectiveKind.ALL_REDUCE, 8000.0, "all"), [last])
    graph.add("more", Compute(flops=9e6), [last])
    workload = Workload((graph.build(),), {"all": Group((4,), (1,))})
    whole = replace(cluster("Switch(4)"), npu=Npu(flops=1e12))
    change = Change(npu=Selection("NPU 2"), speed=0.9)
    slow = replace(whole, network=NetworkModel(degrade=(change,)))
    before, after = (
        simulate(workload, each, fidelity=fidelity, fold=fold)  # type: ignore[arg-type]
        for each in (whole, slow)
    )
    assert after.time - before.time == pytest.approx(2e-6)  # 18 us of work take 20


@examples(30)
@given(cases(), st.integers(0, 3))
def test_a_slower_npu_computes_no_less(case: tuple[Workload, Cluster], seed: int) -> None:
    workload, on = case
    network = replace(on.network, degrade=())
    slow = replace(network, degrade=(Change(npu=Selection(draw=1, seed=seed), speed=0.5),))
    try:
        before, after = (
            simulate(workload, replace(on, network=each), fidelity="message", fold=False).run
            for each in (network, slow)
        )
    except DimsweepError:  # no switch reduces for a line
        return
    assert (after.measures.bytes_sent == before.measures.bytes_sent).all()
    ratio = after.measures.compute[0] / before.measures.compute[0].clip(min=1)
    assert set(ratio.tolist()) <= {0.0, 1.0, 2.0}  # 0: it computes nothing
    assert (ratio == 2).sum() <= 1


def test_speed_is_a_share_of_all_that_an_npu_computes() -> None:
    works = [
        Compute(duration=900),
        Compute(flops=9e6, n_bytes=1.0),
        Compute(flops=1.0, n_bytes=9e6),
        Compute(kernels=(Kernel("a", 9e6, 0.0), Kernel("b", 0.0, 9e6))),
    ]
    npu = Npu(flops=1e12, memory_bandwidth=1e12, launch=90_000)
    for work in works:
        whole = npu.duration(work)
        assert replace(npu, speed=0.9).duration(work) == round(Fraction(whole) / Fraction(9, 10))
        bound = npu.memory_bound_time(work)
        assert replace(npu, speed=0.5).memory_bound_time(work) == 2 * bound
    host = Compute(duration=900, on_host=True)
    assert replace(npu, speed=0.5).duration(host) == 900
    with pytest.raises(DimsweepError, match=r"speed: 1\.5; it must be more than 0 and at most 1"):
        replace(npu, speed=1.5)
