"""Times of single GPU kernels, interpolated from published measurements.

``kernel_times.npz`` next to this file holds, for each GPU and precision, the logarithm of the
measured time of a matrix product on a grid of (m, n, k), and of causal attention on a grid of
(sequences times heads, length of a sequence).  Between grid points the logarithm of the time is
linear in the logarithms of the coordinates.  Beyond the largest coordinate the rate stays constant,
and below the smallest one the time.

The measurements are those that AIConfigurator collected (github.com/ai-dynamo/aiconfigurator,
Apache-2.0, commit 095f58a: kernels of vLLM 0.14 and 0.19).  ``python -m benchmarks kernel_times``
thins them, and prints the prediction errors for the shapes that it leaves out.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.graph import Attention, MatMul

TABLE = Path(__file__).with_name("kernel_times.npz")
SCALE = 1024  # the table has whole numbers: SCALE times the natural logarithm of nanoseconds
_NANOSECONDS = 1e9


@dataclass(frozen=True, eq=False)
class Grid:
    """Measured times on a regular grid: ``axes`` of rising coordinates, ``logarithms`` of ns.

    ``powers``: the work of a kernel grows with this power of each coordinate.
    """

    axes: tuple[tuple[float, ...], ...]
    logarithms: NDArray[np.float64]
    powers: tuple[int, ...]

    @cached_property
    def _logarithmic_axes(self) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(map(math.log, axis)) for axis in self.axes)

    def picoseconds(self, shape: Sequence[float]) -> float:
        """Return the interpolated time (ps) at ``shape``, one coordinate (at least 1) per axis."""
        beyond, corner = 1.0, self.logarithms
        for axis, logarithms, power, wanted in zip(
            self.axes, self._logarithmic_axes, self.powers, shape, strict=True
        ):
            x = min(max(wanted, axis[0]), axis[-1])
            beyond *= max(wanted / axis[-1], 1.0) ** power
            right = min(bisect_right(axis, x), len(axis) - 1)
            low, high = logarithms[right - 1], logarithms[right]
            share = (math.log(x) - low) / (high - low)
            corner = corner[right - 1] * (1 - share) + corner[right] * share
        return math.exp(float(corner)) * beyond * PICOSECONDS / _NANOSECONDS


@dataclass(frozen=True, eq=False)
class KernelTimes:
    """The measured kernel times of one GPU: matrix products and attention."""

    gpu: str
    #: Products by precision.
    products: Mapping[str, Grid]
    #: Attention by head size.
    attention: Mapping[int, Grid]
    #: Products whose number of rows is not a multiple of 4, in the precisions that take longer for
    #: them (the H100 cannot fetch the scales of fp8_block's rows at once).
    ragged: Mapping[str, Grid]

    def product(self, product: MatMul, precision: str) -> float:
        """Return the picoseconds of a matrix product.

        Batched products take as long as one product with all their rows.  Separate products take
        as long as one after another, and at least as long as batched ones.

        Raises :class:`DimsweepError` for a precision that was not measured.
        """
        if precision not in self.products:
            raise DimsweepError(
                f"no product in {precision} was measured on the {self.gpu}",
                where="kernels",
                hint=f"measured: {', '.join(self.products)}",
                code="missing",
            )
        together = self._rows(precision, round(product.products * product.m), product)
        if not product.apart or product.products <= 1:
            return together
        each = self._rows(precision, max(1, round(product.m)), product)
        return max(together, product.products * each)

    def _rows(self, precision: str, rows: int, product: MatMul) -> float:
        """Return the picoseconds of ``product`` if it had ``rows`` rows."""
        grid = self.products[precision]
        if rows % 4:
            grid = self.ragged.get(precision, grid)
        return _interpolate(grid, rows, product.n, product.k)

    def attend(self, attention: Attention) -> float:
        """Return the picoseconds of the forward pass of fused attention in bf16.

        The time is interpolated linearly in the size of a head between the two nearest measured
        sizes, because the exponential of a score takes equally long for every size.  With one
        measured size, and as a lower bound below the smallest one, the time is proportional to the
        FLOPs.  A sequence whose numbers of queries and keys differ is scaled by FLOPs, too.  A mask
        that is not causal doubles the work.
        """
        rows, columns, size = attention.rows, attention.columns, attention.size
        near = sorted(sorted(self.attention, key=lambda measured: abs(measured - size))[:2])
        times = [
            _interpolate(self.attention[measured], attention.heads, columns) for measured in near
        ]
        time = times[0] * size / near[0]
        if size in near:
            time = times[near.index(size)]
        elif len(near) > 1:
            each = max(0.0, times[1] - times[0]) / (near[1] - near[0])
            line = times[0] + each * (size - near[0])
            time = line if size > near[0] else max(line, time)
        whole = 1.0 if attention.causal else 2.0
        return time * whole * (rows / columns)


@lru_cache(maxsize=2**16)
def _interpolate(grid: Grid, *shape: float) -> float:
    """Return the time (ps) at ``shape`` on a grid; cached, because sweeps repeat shapes."""
    return grid.picoseconds(shape)


@cache
def kernel_times(gpu: str) -> KernelTimes:
    """Return the measured kernels of ``gpu``, such as ``"h100"``.

    Raises :class:`DimsweepError` for a GPU without measurements.
    """
    grids: dict[str, dict[str, Grid]] = {"product": {}, "ragged": {}, "attention": {}}
    with np.load(TABLE) as table:
        measured = sorted({name.split("/")[0] for name in table.files})
        for name in table.files:
            of_gpu, kind, which, part = name.split("/")
            if of_gpu == gpu and part == "time":
                grids[kind][which] = _grid(table, name.removesuffix("/time"))
    if gpu not in measured:
        raise DimsweepError(
            f"no kernel was measured on {gpu!r}",
            where="kernels",
            hint=f"measured: {', '.join(measured)}; without kernels, npu.flops is the peak",
            code="unknown-name",
        )
    grids["product"]["fp16"] = grids["product"]["bf16"]  # tensor cores are as fast in both
    attention = {int(size): grid for size, grid in grids["attention"].items()}
    return KernelTimes(gpu, grids["product"], attention, grids["ragged"])


def _grid(table: Mapping[str, NDArray[np.int64]], name: str) -> Grid:
    times = table[f"{name}/time"]
    axes = tuple(tuple(map(float, table[f"{name}/axis{i}"])) for i in range(times.ndim))
    powers = (1, 1, 1) if times.ndim == 3 else (1, 2)  # attention: quadratic in the sequence
    return Grid(axes, times.astype(np.float64) / SCALE, powers)
