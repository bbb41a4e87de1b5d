"""Measured kernels: what lies between the points of the table, and beyond them."""

import csv
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Compute, Npu
from dimsweep.engine.cluster import ShareCurve, SystolicArray, kernel_times
from dimsweep.engine.cluster.kernel_times import TABLE, Grid
from dimsweep.engine.workload import Attention, Kernel, MatMul
from tests.support.golden import golden_file
from tests.support.refused import refused

GPUS = ("a100", "h100", "h200", "b200")
PEAKS = {"a100": 312e12, "h100": 989e12, "h200": 989e12, "b200": 2250e12}
PLAIN = Grid(((1.0, 10.0), (1.0, 100.0)), np.log([[1e3, 1e3], [1e4, 1e5]]), (1, 2))

with golden_file("kernels.csv").open(newline="") as _file:
    LEFT_OUT = list(csv.DictReader(_file))


def kernel(shape: MatMul, attention: Attention | None = None) -> Compute:
    return Compute(kernels=(Kernel("product", shape.flops, 0.0, shape, attention),))


def test_the_logarithm_is_linear_between_the_points() -> None:
    assert PLAIN.picoseconds((1, 1)) == pytest.approx(1e6)
    assert PLAIN.picoseconds((10**0.5, 1)) == pytest.approx(1e6 * 10**0.5)
    assert PLAIN.picoseconds((10, 10)) == pytest.approx(1e7 * 10**0.5)


def test_beyond_the_table_a_kernel_keeps_its_rate_and_below_it_its_time() -> None:
    assert PLAIN.picoseconds((100, 1)) == pytest.approx(1e8)
    assert PLAIN.picoseconds((10, 200)) == pytest.approx(4e8)
    assert PLAIN.picoseconds((0.5, 1)) == pytest.approx(1e6)


# SimuMax (MooreThreads), configs/system/b200_bf16_ceperm.json: grouped products of Transformer
# Engine in bf16 on B200, as microseconds of experts' forward products.
GROUPED = (
    ((160, 154, 5120, 3072), 1725), ((256, 128, 7168, 4096), 4109), ((80, 308, 1536, 5120), 733),
    ((128, 256, 7168, 4096), 3151), ((40, 616, 1536, 5120), 529), ((64, 512, 7168, 4096), 2330),
    ((20, 1232, 1536, 5120), 433), ((32, 1024, 7168, 4096), 1871), ((40, 2460, 5120, 3072), 2826),
)  # fmt: skip


def test_products_of_experts_come_one_after_another() -> None:
    """At once they would last half as long, where each expert has a few hundred tokens."""
    table = kernel_times("b200")

    def ratio(shape: tuple[int, int, int, int], theirs: float, *, apart: bool) -> float:
        n, m, k, width = shape
        ours = table.product(MatMul(n, m, k, width, apart=apart), "bf16")
        return ours / 0.72 / theirs / 1e6

    apart = [ratio(shape, theirs, apart=True) for shape, theirs in GROUPED]
    assert 0.9 < median(apart) < 1.1
    assert max(apart) < 1.5
    assert median(ratio(shape, theirs, apart=False) for shape, theirs in GROUPED) < 0.8
    one = MatMul(1, 512, 4096, 4096)
    assert table.product(one, "bf16") == table.product(one._replace(apart=True), "bf16")


def left_out() -> dict[tuple[str, str], list[float]]:
    """The error of each measured product that is not in the table, by GPU and precision."""
    errors: dict[tuple[str, str], list[float]] = {}
    for row in LEFT_OUT:
        shape = MatMul(1, int(row["m"]), int(row["k"]), int(row["n"]))
        ours = kernel_times(row["gpu"]).product(shape, row["precision"]) / 1e9
        error = abs(ours / float(row["ms"]) - 1)
        errors.setdefault((row["gpu"], row["precision"]), []).append(error)
    return errors


@pytest.mark.parametrize(("which", "errors"), left_out().items(), ids=str)
def test_shapes_that_the_table_leaves_out(which: tuple[str, str], errors: list[float]) -> None:
    assert len(errors) >= 50
    assert median(errors) < 0.05
    assert sum(errors) / len(errors) < 0.12


def test_the_table_is_small() -> None:
    assert TABLE.stat().st_size < 2**20


@pytest.mark.parametrize("gpu", GPUS)
@given(
    shape=st.tuples(*[st.integers(1, 100_000)] * 3),
    precision=st.sampled_from(["bf16", "fp16"]),
)
def test_no_product_is_faster_than_the_chip(
    gpu: str, shape: tuple[int, int, int], precision: str
) -> None:
    product = MatMul(1, *shape)
    assert kernel_times(gpu).product(product, precision) >= product.flops / PEAKS[gpu] * 1e12


@pytest.mark.parametrize("gpu", GPUS)
def test_attention_scales_by_its_mask_its_queries_and_its_head(gpu: str) -> None:
    times = kernel_times(gpu)
    whole = Attention(heads=32, rows=4096, columns=4096, size=128)
    time = times.attend(whole)
    assert time > 2 * 32 * 4096**2 * 128 / PEAKS[gpu] * 1e12
    assert times.attend(whole._replace(causal=False)) == pytest.approx(2 * time)
    assert times.attend(whole._replace(rows=1024)) == pytest.approx(time / 4)


def test_attention_is_linear_in_the_size_of_a_head() -> None:
    """An exponential of each score, whatever the size: a head of 64 takes 0.77 times as long as one
    of 128 on B200, where FlashAttention 4 was measured at 0.75 (708 and 1,062 TFLOP/s for 8 x 4,096
    tokens; Dao-AILab/flash-attention, pull request 2605)."""
    shape = Attention(heads=64, rows=4096, columns=4096, size=128)

    def relative(gpu: str, size: int) -> float:
        times = kernel_times(gpu)
        return times.attend(shape._replace(size=size)) / times.attend(shape)

    assert relative("b200", 64) == pytest.approx(0.75, abs=0.03)
    assert relative("b200", 192) == pytest.approx((1 + relative("b200", 256)) / 2)
    assert relative("h100", 160) == pytest.approx(1.5 - relative("h100", 64) / 2)
    assert relative("h100", 96) == pytest.approx((1 + relative("h100", 64)) / 2)
    assert relative("a100", 120) == pytest.approx(120 / 128), "one size alone was measured"


@given(size=st.integers(1, 1024), heads=st.integers(1, 512), length=st.integers(1, 16384))
@pytest.mark.parametrize("gpu", GPUS)
def test_larger_heads_take_no_less_time_and_none_less_than_at_the_peak(
    gpu: str, size: int, heads: int, length: int
) -> None:
    shape = Attention(heads, length, length, size)
    flops = 2.0 * heads * length**2 * size
    npu = Npu(PEAKS[gpu], 8e12, kernels=kernel_times(gpu))
    product = MatMul(heads, length, size, length)
    work = Compute(kernels=(Kernel("attention", flops, 0.0, product, shape),))
    assert npu.duration(work) >= round(flops / PEAKS[gpu] * 1e12)
    times = kernel_times(gpu)
    if size > max(times.attention):
        assert times.attend(shape) >= times.attend(shape._replace(size=max(times.attention)))


def test_several_products_with_odd_rows_miss_the_tensor_cores() -> None:
    npu = Npu(
        flops=312e12, plain_flops=19.5e12, memory_bandwidth=2e12, kernels=kernel_times("a100")
    )

    def each(products: int, k: int, transposed: bool = False) -> int:
        shape = MatMul(products, 2048, k, 2048, transposed)
        return npu.duration(Compute(kernels=(Kernel("scores", shape.flops, 0.0, shape),)))

    at_fp32 = 2 * 8 * 2048 * 108 * 2048 / 19.5e12 * 1e12
    assert each(8, 108) == pytest.approx(at_fp32)
    assert each(8, 112) < at_fp32 / 3
    assert each(8, 108, transposed=True) < each(8, 112), "its rows are 2,048 long"
    assert each(1, 108) < each(1, 112), "a single product is padded"


def test_an_npu_takes_the_measured_times() -> None:
    times, shape = kernel_times("h100"), MatMul(1, 4096, 4096, 4096)
    npu = Npu(989e12, 3.35e12, kernels=times, efficiency=0.8, launch=1000)
    assert npu.duration(kernel(shape)) == round(1000 + times.product(shape, "bf16") / 0.8)
    forward, scores = Attention(8, 2048, 2048, 128), MatMul(8, 2048, 128, 2048)
    core, back = (npu.duration(kernel(scores, forward._replace(backward=b))) for b in (False, True))
    assert back - 1000 == pytest.approx(npu.attention_backward * (core - 1000), rel=1e-6)


def test_a_precision_without_measurements_is_computed_at_the_peak() -> None:
    shape = MatMul(1, 4096, 4096, 4096)
    npu = Npu(67e12, 3.35e12, kernels=kernel_times("h100"), precision="fp32")
    assert npu.duration(kernel(shape)) == round(shape.flops / 67)
    with refused("kernels", "missing", "fp8", "a100"):
        kernel_times("a100").product(shape, "fp8")


def test_the_error_of_an_unknown_gpu_lists_the_known_ones() -> None:
    with refused("kernels", "unknown-name", "'v100'", "a100, b200, h100, h200"):
        kernel_times("v100")


@pytest.mark.parametrize(
    "other",
    [{"systolic": SystolicArray(8, 8, 1e9)}, {"matmul_efficiency": ShareCurve(((1.0, 0.5),))}],
    ids=lambda other: next(iter(other)),
)
def test_measured_kernels_and_another_model_of_products_contradict(
    other: dict[str, object],
) -> None:
    with refused("", "conflict"):
        Npu(kernels=kernel_times("h100"), **other)  # type: ignore[arg-type]


def test_a_narrow_product_takes_what_was_measured_or_what_is_told() -> None:
    times, shape = kernel_times("h100"), MatMul(1, 4096, 4096, 4096)
    narrow = Compute(kernels=(Kernel("product", shape.flops, 0.0, shape, precision="fp8"),))
    measured = Npu(989e12, 3.35e12, kernels=times)
    assert measured.duration(narrow) == round(times.product(shape, "fp8"))
    told = Npu(989e12, 3.35e12, kernels=times, relative_time={"fp8": 0.6})
    assert told.duration(narrow) == round(times.product(shape, "bf16") * 0.6)
    at_peak = Npu(989e12, 3.35e12, narrow={"fp8": 1979e12})
    assert at_peak.duration(narrow) == round(shape.flops / 1979)
