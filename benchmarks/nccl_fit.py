"""Fits the constants of engine/collective/library/nccl/gpus.py to measured collectives.

    python -m benchmarks.nccl_fit [nccl.csv]

For each kind of GPU it prints the constants, and the mean error of collectives that were left out:
every second size fitted, the others judged, and the other way round.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from engine.cluster.blocks import Switch
from engine.cluster.cluster import CollectiveModel
from engine.collective.library import Request
from engine.collective.library.nccl.choice import Choice
from engine.collective.library.nccl.gpus import GPUS, Cost, Gpu
from engine.collective.library.nccl.phases import answer
from engine.collective.library.nccl.tuning import choose
from engine.collective.steps import Setting
from engine.kinds import CollectiveKind
from engine.units import PICOSECONDS
from sweeper.verify.nccl import AIMS, Row, read_rows

_GOLDEN = Path("tests/golden/nccl.csv")


def main(path: Path = _GOLDEN) -> None:
    rows = [row for row in read_rows(path) if row.of_fitted_machine]
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
    start = [np.log(gpu.own_copy), *(np.log(share) for share in gpu.crowding.values())]
    for choice in choices:
        start += np.log(np.maximum(gpu.costs[choice], 0.01)).tolist()

    def off(values: NDArray[np.float64]) -> NDArray[np.float64]:
        made = _made(gpu, choices, values)
        return (np.log([seconds(made, row) for row in rows]) - measured) / aims

    found = least_squares(off, start, loss="soft_l1", f_scale=2.0)
    return _made(gpu, choices, found.x)


def _made(gpu: Gpu, choices: Sequence[Choice], values: NDArray[np.float64]) -> Gpu:
    own, *rest = np.exp(values).tolist()
    crowding = dict(zip(gpu.crowding, rest, strict=False))
    rest = rest[len(crowding) :]
    costs = {choice: Cost(*rest[3 * i : 3 * i + 3]) for i, choice in enumerate(choices)}
    return replace(gpu, own_copy=own, crowding=crowding, costs={**gpu.costs, **costs})


def request(gpu: Gpu, row: Row) -> Request:
    """What the row asks of NCCL on one node."""
    kind = CollectiveKind(row.kind)  # type: ignore[arg-type]
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
    crowding = {n: float(f"{share:.3g}") for n, share in gpu.crowding.items()}
    print(f"{gpu.name}: own_copy {gpu.own_copy:.2g}, crowding {crowding}")
    for (algorithm, protocol), cost in gpu.costs.items():
        base, hop, bandwidth = cost
        print(f"  {algorithm} {protocol}: Cost({base:.3g}, {hop:.3g}, {bandwidth:.4g})")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
