"""Two hundred simulations whose results are the same on every machine and with every package.

``python -m tests.support.bits`` writes what is recorded of them, in tests/golden/bits.csv, anew;
only a new version of the model changes it.
"""

import csv
import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dimsweep.engine import Program, run_batch
from dimsweep.engine.bound import EventBound, LinearSpace, lower_bound, time_of
from dimsweep.engine.kernels.network import run_messages
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program
from tests.support.golden import COMMITTED

GB = 1e9
SUMS, SOLVER = 1e-14, 1e-9
LEAST = "least"
_SPLITS = 18  # of each cell
_TOTAL = 600 * GB
# Every kind of workload, schedule and block, in the phase kernel.
_PHASES = (
    ("gpt3_libra", "libra_4d"),
    ("msft1t_libra", "libra_3d"),
    ("llama3_70b", "dgx_a100"),
    ("mixtral_8x22b", "themis_4d_ring"),
    ("moe_1t", "libra_3d"),
    ("dlrm", "dgx_a100"),
    ("resnet152", "torus_1024"),
    ("themis_gnmt", "themis_4d_ring_fc"),
    ("all_reduce", "themis_3d_fc_ring"),
    ("turing_nlg", "dgx_h100"),
)
# Small ones by message, by flow and by packet.
_SHAPES = ("Ring(4)_Switch(2)", "FullyConnected(4)_Ring(3)", "Switch(8)", "Mesh2D(3,2)_Switch(2)")
_CARRIED = (
    *(("message", shape, "1 MB") for shape in (*_SHAPES, "Torus2D(3,3)", "Switch(6)_Ring(3)")),
    *(("message", shape, "7 MB") for shape in _SHAPES),
    *(("flow", shape, "3 MB") for shape in (*_SHAPES, "Switch(16)")),
    *(("packet", shape, "200 kB") for shape in (*_SHAPES, "Switch(16)")),
)


class Bits(NamedTuple):
    """The picoseconds of a run, which must be the same, and a proven bound on its seconds.

    Sums of floats are not ordered alike by all versions of NumPy, and a solver of another version
    ends elsewhere within its tolerance: bounds are as good as :data:`SUMS`, least ones as
    :data:`SOLVER`, relative.
    """

    cell: str
    split: str
    time_ps: int
    bound: float | None

    def agrees(self, other: "Bits") -> bool:
        """Whether both are results of the same model."""
        if self.bound is None or other.bound is None:
            return self == other
        tolerance = SOLVER if self.split == LEAST else SUMS
        close = math.isclose(self.bound, other.bound, rel_tol=tolerance)
        return close and self._replace(bound=other.bound) == other


def found() -> Iterator[Bits]:
    """All of them, simulated now."""
    for workload, topology in _PHASES:
        program = build_program(compose([f"workload={workload}", f"topology={topology}"]).config)
        yield from _phases(f"{workload} {topology}", program)
    for fidelity, shape, size in _CARRIED:
        gradients = f"{{duration: 0 ns, collective: all_reduce, size: {size}, group: data}}"
        words = [f"workload.layers=[{{name: all, weight_grad: {gradients}}}]"]
        words += ["workload=all_reduce", f"topology.shape={shape}"]
        n_dims = shape.count("_") + 1
        words += [f"topology.bandwidth={_said(_split(0, n_dims))}", "topology.tiers=[]"]
        words += ["topology.latency=700 ns", "collective.chunks=4", f"fidelity={fidelity}"]
        config = compose(words).config
        program = build_program(config)
        time = run_messages(program, config.fidelity, fold=config.fold).measures.time
        yield Bits(f"{fidelity} {shape} {size}", "0", int(time[0]), None)


def _phases(cell: str, program: Program) -> Iterator[Bits]:
    n_dims = len(program.bandwidth)
    splits = np.array([_split(number, n_dims) for number in range(_SPLITS)])
    space = LinearSpace.budget(n_dims, _TOTAL, GB)
    model = EventBound(program, space)
    times = run_batch(program, splits).time.tolist()
    for number, (split, time) in enumerate(zip(splits, times, strict=True)):
        yield Bits(cell, str(number), time, time_of(model, split))
    least = lower_bound(program, space)
    yield Bits(cell, LEAST, 0, float(least.bound))


def _split(number: int, n_dims: int) -> list[float]:
    """Uneven, and whole GB/s."""
    return [(7 + (37 * number + 101 * d + 13 * number * d) % 289) * GB for d in range(n_dims)]


def _said(split: list[float]) -> str:
    return f"[{','.join(f'{value / GB:.0f} GB/s' for value in split)}]"


def main() -> None:
    rows = list(found())
    with (COMMITTED / "bits.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Bits._fields)
        writer.writerows(rows)  # floats as repr has them, which is exact
    print(f"{len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
