"""Thins measured kernels to the table that the engine ships, and judges it on what was left out.

``python -m benchmarks kernel_times`` prints the errors; ``python -m benchmarks.kernel_times
--write`` also writes the table.
"""

import sys

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.study import recorded
from dimsweep.engine.cluster.kernel_times import SCALE, TABLE, Grid

# Rows of a product that are kept: powers of two, and half-way between them from 32 on.
ROWS = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536)
ROWS += (2048, 3072, 4096, 8192, 16384, 32768)
# The same for rows that no 4 divides, where a precision treats them otherwise.
RAGGED_ROWS = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049, 4097)
RAGGED = {("h100", "fp8_block"), ("h200", "fp8_block")}
NAMES = {"bfloat16": "bf16"}
# A third of the H200's attention rows lie above the peak of the chip, so they measured something
# else; the H100's stand in (it is the same chip, and attention is no matter of memory).
ATTENTION_FROM = {"a100": "a100", "h100": "h100", "h200": "h100", "b200": "b200"}
MOST_GROUPED = 8  # heads that share keys and values, in the rows of attention that are kept
PRODUCT, ATTENTION = ["m", "n", "k"], ["bh", "seq"]


def main() -> None:
    """Print, for each GPU and kind of kernel, the error on shapes that are not in the table."""
    if (measured := recorded("clusters/kernels", "the measurements")) is None:
        return
    parts: dict[str, NDArray[np.integer]] = {}
    for gpu, source in ATTENTION_FROM.items():
        products = pd.read_parquet(measured / f"{gpu}_gemm.parquet")
        for dtype, rows in products.groupby("dtype"):
            name = f"{gpu}/product/{NAMES.get(str(dtype), str(dtype))}"
            odd = rows[rows.m % 4 != 0] if (gpu, dtype) in RAGGED else rows[:0]
            parts |= _parts(name, _products(name, rows.drop(odd.index), ROWS))
            if len(odd):
                name = f"{gpu}/ragged/{dtype}"
                parts |= _parts(name, _products(name, odd, RAGGED_ROWS))
        attention = pd.read_parquet(measured / f"{source}_attention.parquet")
        attention = attention.assign(bh=attention.batch * attention.heads)
        grouped = attention.heads / attention.kv_heads
        for size, rows in attention[grouped <= MOST_GROUPED].groupby("head_dim"):
            name = f"{gpu}/attention/{size}"
            parts |= _parts(name, _attention(name, rows))
    if "--write" in sys.argv:
        np.savez_compressed(TABLE, **parts)
        print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes")


def _products(name: str, rows: pd.DataFrame, heights: tuple[int, ...]) -> Grid:
    """The grid of products, judged by other numbers of rows, and, without every second n and k, by
    those."""
    kept = rows[rows.m.isin(heights)]
    grid = _grid(kept, PRODUCT)
    _judge(f"{name}, other m", grid, rows[~rows.m.isin(heights)], PRODUCT)
    coarse = kept.n.isin(_every_second(kept.n)) & kept.k.isin(_every_second(kept.k))
    other = kept[~coarse & (kept.m >= 256)]
    _judge(f"{name}, every second n and k", _grid(kept[coarse], PRODUCT), other, PRODUCT)
    return grid


def _attention(name: str, rows: pd.DataFrame) -> Grid:
    """The grid of attention, judged by every second number of heads and length."""
    coarse = rows.bh.isin(_every_second(rows.bh)) & rows.seq.isin(_every_second(rows.seq))
    other = rows[~coarse & (rows.seq >= 512)]
    _judge(f"{name}, every second", _grid(rows[coarse], ATTENTION), other, ATTENTION)
    return _grid(rows, ATTENTION)


def _every_second(values: pd.Series) -> list[int]:
    """Every second of the values that there are, and the last one."""
    unique = sorted(values.unique())
    return [*unique[::2], unique[-1]]


def _grid(rows: pd.DataFrame, axes: list[str]) -> Grid:
    """The median logarithm of ns at each point; a missing one keeps its neighbour's rate."""
    values = rows.groupby(axes).ms.median()
    points = [np.array(sorted(rows[axis].unique()), dtype=np.float64) for axis in axes]
    full = pd.MultiIndex.from_product(points)
    values.index = values.index.set_levels([level.astype(float) for level in values.index.levels])
    table = np.log(values.reindex(full).to_numpy() * 1e6).reshape([len(p) for p in points])
    powers = (1,) * 3 if axes == PRODUCT else (1, 2)
    for axis, (coordinates, power) in enumerate(zip(points, powers, strict=True)):
        steps = np.diff(np.log(coordinates)) * power
        by_axis = np.moveaxis(table, axis, 0)
        for i, step in enumerate(steps):
            missing = np.isnan(by_axis[i + 1])
            by_axis[i + 1][missing] = by_axis[i][missing] + step
    assert np.isfinite(table).all()
    return Grid(tuple(tuple(p) for p in points), np.round(table * SCALE) / SCALE, powers)


def _judge(name: str, grid: Grid, rows: pd.DataFrame, axes: list[str]) -> None:
    if rows.empty:
        print(f"{name}: all shapes are in the table")
        return
    if len(rows) > 5000:
        rows = rows.sample(5000, random_state=0)
    predicted = np.array([grid.picoseconds(shape) for shape in rows[axes].to_numpy(float)]) / 1e9
    error = np.abs(predicted / rows.ms.to_numpy() - 1)
    aligned = rows[axes[0]].to_numpy() % 8 == 0
    for what, of in (("", aligned), (" that no 8 divides", ~aligned)):
        if of.any():
            print(
                f"{name}{what}: {of.sum()} shapes left out, "
                f"median error {np.median(error[of]):.1%}, mean {error[of].mean():.1%}"
            )


def _parts(name: str, grid: Grid) -> dict[str, NDArray[np.integer]]:
    parts = {f"{name}/axis{i}": np.array(axis, dtype=np.int32) for i, axis in enumerate(grid.axes)}
    return {**parts, f"{name}/time": np.round(grid.logarithms * SCALE).astype(np.int16)}


if __name__ == "__main__":
    main()
