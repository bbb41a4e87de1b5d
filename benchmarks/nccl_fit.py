"""Fits the constants of engine/collective/library/nccl/gpus.py to measured collectives.

    python -m benchmarks.nccl_fit [nccl.csv]

For each kind of GPU it prints the constants, and the mean error of collectives that were left out:
every second size fitted, the others judged, and the other way round.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from dimsweep.engine import Switch
from dimsweep.engine.cluster.cluster import CollectiveModel
from dimsweep.engine.collective.library import Request
from dimsweep.engine.collective.library.nccl.gpus import DIRECT, GPUS, Choice, Cost, Gpu, Hardware
from dimsweep.engine.collective.library.nccl.phases import answer
from dimsweep.engine.collective.library.nccl.tuning import choose
from dimsweep.engine.collective.steps import Setting
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.units import PICOSECONDS
from dimsweep.sweeper.extensions.verify.nccl import AIMS, Row, read_rows

_GOLDEN = Path("tests/golden/nccl.csv")


def main(path: Path = _GOLDEN) -> None:
    rows = [row for row in read_rows(path) if row.is_of_fitted_machine]
    for name in dict.fromkeys(row.gpu for row in rows):
        mine = [row for row in rows if row.gpu == name]
        _print(fitted(GPUS[name], mine))
        halves = [[row for row in mine if row.n_bytes.bit_length() % 2 == half] for half in (0, 1)]
        errors = []
        for known, unknown in (halves, halves[::-1]):
            gpu = fitted(GPUS[name], known)
            errors += [(row.is_large, abs(seconds(gpu, row) / row.seconds - 1)) for row in unknown]
        for large in (False, True):
            part = [error for is_large, error in errors if is_large == large]
            where = "from 16 MiB up" if large else "below"
            print(f"  {fmean(part):.1%} {where}, of {len(part)} that were left out")


def fitted(gpu: Gpu, rows: Sequence[Row]) -> Gpu:
    """The kind of GPU with the constants that predict the logarithms of ``rows`` best.

    An error counts against the aim for its size, and far beyond that less than by its square.
    """
    used = {choose(gpu, request(gpu, row)) for row in rows}
    choices = [choice for choice in gpu.costs if choice in used]
    measured = np.log([row.seconds for row in rows])
    aims = np.array([AIMS[row.is_large] for row in rows])
    start = np.log([gpu.own_copy, *_copies(gpu), *chain(*gpu.crowding.values())]).tolist()
    for choice in choices:
        start += np.log(np.maximum(_free(gpu, choice), 0.01)).tolist()

    def off(values: NDArray[np.float64]) -> NDArray[np.float64]:
        made = _made(gpu, choices, values)
        return (np.log([seconds(made, row) for row in rows]) - measured) / aims

    found = least_squares(off, start, loss="soft_l1", f_scale=2.0)
    return _made(gpu, choices, found.x)


def _made(gpu: Gpu, choices: Sequence[Choice], values: NDArray[np.float64]) -> Gpu:
    rest = iter(np.exp(values).tolist())
    own = next(rest)
    copies = next((next(rest) for _ in _copies(gpu)), gpu.copies)
    crowding = {n: (next(rest), next(rest)) for n in gpu.crowding}
    costs = {}
    for choice in choices:
        found = [next(rest) for _ in _free(gpu, choice)]
        costs[choice] = Cost(*found) if len(found) == 3 else Cost(found[0], 0.0, found[1])
    return replace(
        gpu, own_copy=own, copies=copies, crowding=crowding, costs={**gpu.costs, **costs}
    )


def _copies(gpu: Gpu) -> list[float]:
    return [gpu.copies] if math.isfinite(gpu.copies) else []


def _free(gpu: Gpu, choice: Choice) -> tuple[float, ...]:
    """What is fitted of a choice's cost."""
    cost, over_nvlink = gpu.costs[choice], gpu.hardware is Hardware.NVLINK
    return (cost.base, cost.bandwidth) if choice == DIRECT and over_nvlink else cost


def request(gpu: Gpu, row: Row) -> Request:
    """What the row asks of NCCL on one node."""
    kind = CollectiveKind(row.kind)
    held = row.n_bytes / (row.ranks if kind is CollectiveKind.ALL_GATHER else 1)
    setting = Setting(Switch(), row.ranks, row.ranks, 1)
    return Request(kind, held, (setting,), 1, (gpu.link * 1e9,))


def seconds(gpu: Gpu, row: Row) -> float:
    """What the phase of the row lasts."""
    asked = request(gpu, row)
    (phases,) = answer(gpu, asked, CollectiveModel(chunks=1)).phases
    steps = phases.scatter
    if asked.kind is CollectiveKind.ALL_REDUCE:
        assert phases.fused is not None
        steps = phases.fused
    elif asked.kind is CollectiveKind.ALL_GATHER:
        assert phases.gather is not None
        steps = phases.gather
    per_byte = 1 / (gpu.link * 1e9 * steps.share)
    return sum(
        step.count * (step.fixed / PICOSECONDS + step.bytes_fraction * asked.held * per_byte)
        for step in steps.steps
    )


def _print(gpu: Gpu) -> None:
    crowding = {
        n: tuple(float(f"{share:.3g}") for share in shares) for n, shares in gpu.crowding.items()
    }
    print(f"{gpu.name}: own_copy {gpu.own_copy:.2g}, copies {gpu.copies:.4g}, crowding {crowding}")
    for (algorithm, protocol), cost in gpu.costs.items():
        base, hop, bandwidth = cost
        print(f"  {algorithm} {protocol}: Cost({base:.3g}, {hop:.3g}, {bandwidth:.4g})")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
