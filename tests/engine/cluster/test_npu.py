"""The roofline: an operator takes the longer of its compute and its memory time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Compute,
    GraphBuilder,
    Npu,
    Topology,
    Workload,
    lower,
)
from dimsweep.engine.workload import Attention, Kernel, MatMul
from tests.support.refused import refused

NPU = Npu(flops=1e12, memory_bandwidth=1e11)


def test_compute_bound() -> None:
    assert NPU.duration(Compute(1e9, 1e6)) == 10**9  # 1 ms against 10 us


def test_memory_bound() -> None:
    assert NPU.duration(Compute(1e6, 1e9)) == 10**10


def test_efficiency_slows_compute_only() -> None:
    half = Npu(flops=1e12, memory_bandwidth=1e11, efficiency=0.5)
    assert half.duration(Compute(1e9, 0)) == 2 * 10**9
    assert half.duration(Compute(0, 1e9)) == 10**10


@given(st.floats(0.5, 4), st.floats(1, 5))
def test_attention_takes_so_many_times_its_flops(time: float, back: float) -> None:
    """Without measured kernels its time, and that of its gradients, are by that of its FLOPs."""
    npu = Npu(flops=1e12, attention_time=time, attention_backward=back)
    shape = Attention(8, 2048, 2048, 128)

    def of(flops: float, attention: Attention | None) -> int:
        kernel = Kernel("", flops, 0.0, MatMul(8, 2048, 128, 2048), attention)
        return npu.duration(Compute(kernels=(kernel,)))

    assert of(1e9, None) == 10**9
    assert of(1e9, shape) == pytest.approx(time * 1e9)
    assert of(2.5e9, shape._replace(backward=True)) == pytest.approx(time * back * 1e9)


def test_durations_are_rounded_to_the_nearest_picosecond() -> None:
    assert Npu(flops=3e12).duration(Compute(1, 0)) == 0
    assert Npu(flops=3e12).duration(Compute(2, 0)) == 1


def test_nothing_takes_no_time() -> None:
    assert Npu().duration(Compute()) == 0


@given(st.floats(0, 1e15), st.floats(0, 1e15))
def test_the_roofline_is_the_maximum(flops: float, n_bytes: float) -> None:
    each = (NPU.duration(Compute(flops)), NPU.duration(Compute(n_bytes=n_bytes)))
    assert NPU.duration(Compute(flops, n_bytes)) == max(each)


@pytest.mark.parametrize("efficiency", [0.0, -0.1, 1.1, float("nan")])
def test_efficiency_is_a_share(efficiency: float) -> None:
    with refused("efficiency", "out-of-range", f"{efficiency:g}"):
        Npu(efficiency=efficiency)


@pytest.mark.parametrize(
    ("npu", "flops", "n_bytes", "where"),
    [
        (Npu(memory_bandwidth=1e11), 1.0, 1.0, "npu.flops"),
        (Npu(flops=1e12), 1.0, 1.0, "npu.memory_bandwidth"),
    ],
)
def test_a_missing_rate_is_named(npu: Npu, flops: float, n_bytes: float, where: str) -> None:
    with refused(where, "missing"):
        npu.duration(Compute(flops, n_bytes))


def test_an_operator_longer_than_the_clock_is_refused() -> None:
    with refused("npu", "out-of-range", "1e+21 s"):
        Npu(flops=1e-9).duration(Compute(1e12))


def compute_of(work: Compute) -> int:
    builder = GraphBuilder()
    builder.add("matmul", work)
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    program = lower(Workload((builder.build(),)), Cluster(topology, NPU))
    return int(program.structure.nodes["duration"][0])


def test_operators_without_a_duration_take_the_rooflines() -> None:
    assert compute_of(Compute(flops=1e9)) == 10**9


def test_a_measured_duration_wins() -> None:
    assert compute_of(Compute(flops=1e9, duration=7)) == 7


def test_lowering_names_the_operator_that_lacks_a_rate() -> None:
    builder = GraphBuilder()
    builder.add("matmul", Compute(flops=1e9))
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    with refused("npu.flops", "missing", "'matmul'"):
        lower(Workload((builder.build(),)), Cluster(topology))


def test_kernels_wait_for_a_host_that_runs_ahead_of_long_ones() -> None:
    def work(*microseconds: int) -> Compute:
        return Compute(kernels=tuple(Kernel("copy", 0.0, 1e5 * time) for time in microseconds))

    slow, quick = (Npu(memory_bandwidth=1e11, host=host) for host in (4_000_000, 1_000_000))
    assert slow.duration(work(0, 1, 2, 3)) == 15_000_000  # what has no work is not issued
    assert quick.duration(work(0, 1, 2, 3)) == 7_000_000  # the first one alone is late
    assert quick.issued_duration(work(1, 2, 3), 1_000_000) == (6_000_000, 4_000_000)
    assert quick.issued_duration(work(9), -2_000_000) == (12_000_000, 9_000_000)
    with refused("host", "out-of-range", "-1 ps"):
        Npu(host=-1)


def test_the_host_issues_a_part_with_its_neighbour_and_has_no_lead_after_what_it_awaits() -> None:
    npu = Npu(memory_bandwidth=1e11, launch=500_000, host=2_000_000)
    norm, cast = Kernel("norm", 0.0, 3e5), Kernel("cast", 0.0, 1e5, launched=False)
    assert npu.issued_duration(Compute(kernels=(norm, cast)), 0) == (6_500_000, 4_500_000)
    routed = norm._replace(awaited=True)
    assert npu.issued_duration(Compute(kernels=(routed, norm)), 0) == (11_000_000, 3_500_000)


def test_a_graph_launches_its_kernels_at_once_and_without_the_host() -> None:
    norm = Kernel("norm", 0.0, 3e5)
    graphed = norm._replace(graphed=True)
    slow = Npu(memory_bandwidth=1e11, launch=20_000_000, host=90_000_000)
    assert slow.duration(Compute(kernels=(norm,))) == 113_000_000
    assert slow.duration(Compute(kernels=(graphed, graphed))) == 2 * 6_000_000
    assert slow.issued_duration(Compute(kernels=(graphed, norm)), 0) == (113_000_000, 23_000_000)
    quick = Npu(memory_bandwidth=1e11, launch=1_000_000)
    assert quick.duration(Compute(kernels=(graphed,))) == 4_000_000


@pytest.mark.parametrize(("size", "idle"), [(128, 2.0), (256, 1.0), (512, 1.0)])
def test_heads_smaller_than_a_matrix_unit_leave_a_part_of_it_idle(size: int, idle: float) -> None:
    """A TPU v6e has units of 256 x 256; other products keep their speed."""
    shape = Attention(8, 2048, 2048, size)
    attention = Compute(kernels=(Kernel("", 1e9, 0.0, MatMul(8, 2048, size, 2048), shape),))
    product = Compute(kernels=(Kernel("", 1e9, 0.0, MatMul(8, 2048, size, 2048)),))
    unit, plain = Npu(flops=1e12, matrix_unit=256), Npu(flops=1e12)
    assert unit.duration(attention) == idle * plain.duration(attention)
    assert unit.duration(product) == plain.duration(product)
