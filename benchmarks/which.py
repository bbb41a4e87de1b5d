"""Networks and plans: every cell of some spaces simulated, beside their search by bounds; what
samplers find in one of 632,448 cells; and what a search takes of 10^3 to 10^6 cells."""

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import which_samplers, which_scale
from benchmarks.which_search import searched, simulated
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.plan import plan_study

_TIERS = {
    "node": "{blocks: [FullyConnected], sizes: [4, 8], bandwidth: [300 GB/s],"
    " latency: 2 us, price: package}",
    "pod": "{blocks: [Ring, Switch], bandwidth: [12.5 GB/s, 50 GB/s], latency: 5 us, price: pod}",
}
_HEAD = """
defaults:
  - override /workload: {workload}
  - override /topology: dgx_h100
  - override /npu: h100
  - override /cost: dgx_h100
  - override /collective: {collective}
  - _self_
workload: {{model: {{layers: 8}}, plan: {{batch: 64, micro_batches: null}}}}
npu: {{memory: 400 GB}}  # so that few plans do not fit
objective: {objective}
what_if: null
budget: {{trials: 100000}}
space:
  network: {{npus: {npus}, tiers: [{tiers}]}}
  plan: {plan}
"""


class Space(NamedTuple):
    """A space of some hundred or thousand cells."""

    workload: str
    objective: str
    collective: str
    npus: int
    plan: str

    @property
    def text(self) -> str:
        return _HEAD.format(**self._asdict(), tiers=", ".join(_TIERS.values()))


SPACES = {
    "dense, time": Space(
        "gpt3_13b",
        "time",
        "streamed",
        32,
        "{tensor: [1, 2, 4, 8], pipeline: [1, 2, 4], micro_batch: [1, 2], zero: [0, 1],"
        " recompute: [none, full]}",
    ),
    "dense, cost": Space(
        "gpt3_13b",
        "perf_per_cost",
        "streamed",
        32,
        "{tensor: [1, 2, 4, 8], pipeline: [1, 2, 4], interleave: [1, 2], micro_batch: [1, 2],"
        " zero: [0, 1]}",
    ),
    "experts": Space(
        "mixtral_8x22b",
        "cost_per_token",
        "streamed",
        32,
        "{tensor: [1, 2, 4], expert: [1, 2, 4, 8], pipeline: [1, 2], interleave: [1, 2],"
        " zero: [0, 1], recompute: [none, full]}",
    ),
    "sharded": Space(
        "llama3_70b",
        "time",
        "whole",
        16,
        "{tensor: [1, 2, 4], context: [1, 2], pipeline: [1, 2], interleave: [1], zero: [1, 2, 3],"
        " recompute: [none, selective, full]}",
    ),
    "themis": Space(
        "llama3_70b",
        "perf_per_cost",
        "themis",
        32,
        "{tensor: [1, 2, 4, 8], pipeline: [1, 2, 4, 8], interleave: [1], micro_batch: [1, 2],"
        " zero: [0, 1, 2]}",
    ),
}


class _Found(NamedTuple):
    best: float
    levels: np.ndarray  # (cells, 4) of the objective's loss: floor, loads, program, simulation
    seconds: float


def main() -> None:
    """Print the tables; raise :class:`AssertionError` where a bound is broken."""
    by_force()
    which_samplers.main()
    which_scale.scale()


def by_force() -> None:
    """Print a line for each space."""
    print("space          cells  simulated  bounded  loads/sim  bound/sim  search s  all s")
    for name, space in SPACES.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "which.yaml"
            file.write_text(space.text)
            plan = plan_study(compose([f"study={file}", f"results={folder}"]))
            proof, took = searched(plan)
            assert isinstance(plan.stream, Designs)
            found = _by_force(plan.stream)
        objective = plan.config.objective[0]
        assert proof.best is not None
        assert np.isclose(objective.loss(proof.best), found.best, rtol=1e-9), "another winner"
        below = found.levels[:, :-1] <= found.levels[:, 1:] * (1 + 1e-9)
        assert below.all(), f"{(~below).sum()} bounds are broken"
        loads, bound = (np.median(found.levels[:, i] / found.levels[:, 3]) for i in (1, 2))
        print(
            f"{name:12} {proof.cells:7,} {proof.simulated:10,} {proof.bounded:8,}"
            f" {loads:10.4f} {bound:10.4f} {took:9.1f} {found.seconds:6.1f}",
            flush=True,
        )


def _by_force(designs: Designs) -> _Found:
    """All cells, simulated one after another."""
    start, levels = time.process_time(), []
    for i in range(len(designs.cells.rows)):
        for m, bound in enumerate(designs.bounds(i).tolist()):
            number = int(designs.cells.first[i]) + m
            found = designs.plan(number)
            if isinstance(found, PrunedCell):
                continue
            assert found.plan.bound is not None
            own = found.plan.objective[0].loss(found.plan.bound)
            levels.append(
                (designs.floors[i], bound, own, simulated(designs, number, found.program))
            )
    whole = np.array(levels)
    return _Found(float(whole[:, 3].min()), whole, time.process_time() - start)
