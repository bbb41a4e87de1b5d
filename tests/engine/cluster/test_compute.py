"""Compute models beyond the roofline: efficiency by size, systolic arrays, measured durations."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Compute, DimsweepError, Npu
from dimsweep.engine.cluster import Dataflow, ShareCurve, SystolicArray
from dimsweep.engine.errors import Code
from dimsweep.engine.formats import read_measured
from dimsweep.engine.workload import Kernel, MatMul
from tests.support.golden import golden_file
from tests.support.refused import refused

CURVE = ShareCurve(((1e9, 0.2), (1e11, 0.6), (1e12, 0.8)))


def matmul(products: int, m: int, k: int, n: int, n_bytes: float = 0.0) -> Kernel:
    shape = MatMul(products, m, k, n)
    return Kernel("product", shape.flops, n_bytes, shape)


def test_a_curve_is_linear_in_the_logarithm() -> None:
    assert CURVE.evaluate(1e9) == 0.2
    assert CURVE.evaluate(1e10) == pytest.approx(0.4)
    assert CURVE.evaluate(1e12) == pytest.approx(0.8)
    assert CURVE.evaluate(1.0) == 0.2
    assert CURVE.evaluate(1e18) == 0.8


@given(st.floats(1, 1e15), st.floats(1, 1e15))
def test_larger_products_are_not_less_efficient_on_a_rising_curve(a: float, b: float) -> None:
    assert (CURVE.evaluate(a) <= CURVE.evaluate(b)) or a > b


@pytest.mark.parametrize("knots", [(), ((1e9, 0.0),), ((1e9, 0.5), (1e9, 0.6)), ((0.0, 0.5),)])
def test_a_bad_curve_is_refused(knots: tuple[tuple[float, float], ...]) -> None:
    code: Code = "out-of-range" if knots and knots[0][1] == 0 else "invalid"
    with refused("", code):
        ShareCurve(knots)


def test_efficiency_is_of_products_alone() -> None:
    npu = Npu(1e12, 1e11, matmul_efficiency=ShareCurve(((1.0, 0.5),)))
    assert npu.duration(Compute(kernels=(matmul(1, 100, 100, 100),))) == 2 * 2_000_000
    assert npu.duration(Compute(2e6)) == 2_000_000


def test_kernels_run_one_after_another_and_each_is_launched() -> None:
    npu = Npu(1e12, 1e11, launch=1000)
    one, two = matmul(1, 10, 10, 10), Kernel("copy", 0.0, 1e4)
    alone = [npu.duration(Compute(kernels=(k,))) for k in (one, two)]
    assert npu.duration(Compute(kernels=(one, two))) == sum(alone)
    assert alone == [1000 + 2000, 1000 + 100_000]


with golden_file("scalesim.csv").open(newline="") as _file:
    SCALE_SIM = list(csv.DictReader(_file))
DATAFLOWS = {
    "os": Dataflow.OUTPUT_STATIONARY,
    "ws": Dataflow.WEIGHT_STATIONARY,
    "is": Dataflow.INPUT_STATIONARY,
}


@pytest.mark.parametrize("case", SCALE_SIM, ids=lambda c: "-".join(list(c.values())[1:7]))
def test_a_systolic_array_takes_the_cycles_of_scale_sim(case: dict[str, str]) -> None:
    array = SystolicArray(int(case["rows"]), int(case["columns"]), 1e9, DATAFLOWS[case["dataflow"]])
    product = MatMul(1, int(case["M"]), int(case["K"]), int(case["N"]))
    assert array.cycles(product) == int(case["total_cycles"])


@given(
    st.sampled_from(Dataflow),
    st.tuples(*[st.integers(1, 300)] * 3),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_an_array_never_exceeds_its_peak(
    dataflow: Dataflow, shape: tuple[int, int, int], rows: int, columns: int
) -> None:
    product = MatMul(1, *shape)
    cycles = SystolicArray(rows, columns, 1e9, dataflow).cycles(product)
    assert (cycles + 1) * rows * columns * 2 >= product.flops


def test_arrays_share_the_folds_of_a_batch() -> None:
    one, four = (SystolicArray(64, 64, 1e9, arrays=n) for n in (1, 4))
    product = MatMul(8, 64, 64, 64)
    assert one.cycles(product) + 1 == 4 * (four.cycles(product) + 1)
    npu = Npu(memory_bandwidth=1e15, systolic=one)
    assert npu.duration(Compute(kernels=(matmul(8, 64, 64, 64),))) == one.cycles(product) * 1000


def test_an_array_and_a_curve_contradict_each_other() -> None:
    with refused("matmul_efficiency", "conflict"):
        Npu(systolic=SystolicArray(8, 8, 1e9), matmul_efficiency=CURVE)


def test_measured_durations_replace_the_model(tmp_path: Path) -> None:
    file = tmp_path / "kernels.csv"
    file.write_text("kernel,duration,note\nproduct,12.5 us,warm\ncopy,800 ns,\n")
    npu = Npu(measured=read_measured(file))
    kernels = (matmul(1, 9, 9, 9), Kernel("copy", 0.0, 1e9))
    assert npu.duration(Compute(kernels=kernels)) == 13_300_000
    with refused("npu.measured", "missing", "'softmax'"):
        npu.duration(Compute(kernels=(Kernel("softmax", 1.0, 1.0),)))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name,time\nx,1 us\n", ""),
        ("kernel,duration\nx,12\n", "line 2"),
        ("kernel,duration\nx,1 us\nx,2 us\n", "line 3"),
        ("kernel,duration\n,1 us\n", "line 2"),
        ("kernel,duration\nx\n", "line 2"),
        ("", ""),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "kernels.csv"
    file.write_text(text)
    with pytest.raises(DimsweepError) as error:
        read_measured(file)
    assert str(file) in error.value.where
    assert where in error.value.where


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DimsweepError, match="cannot read the table"):
        read_measured(tmp_path / "none.csv")


def test_a_part_of_a_row_takes_a_rows_time() -> None:
    """Experts get 4.57 rows each in the mean; what is left of a division is no row."""
    array = SystolicArray(128, 128, 1e9)
    five = array.cycles(MatMul(2, 5, 6144, 1024))
    assert array.cycles(MatMul(1.75, 4.57, 6144, 1024)) == five
    assert array.cycles(MatMul(2.0, 5.0000000001, 6144, 1024)) == five
    assert array.cycles(MatMul(2, 5.1, 6144, 1024)) > five
