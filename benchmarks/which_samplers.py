"""What samplers of Optuna's find among networks and plans, beside the best that bounds prove, of
the studies named or all."""

import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import optuna

from benchmarks.which_search import searched, simulated
from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.study import Networks, Plans
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.space.plans import KEYS

_STUDIES = ("gpt3_1k", "mixtral_2k", "llama405b_16k")
_SIMULATIONS = (8, 16, 32)
_SEEDS = range(5)
_PROPOSALS = 2_000  # at most: those that cannot be are not simulated, nor those a search knows


class _Simulated(NamedTuple):
    """A cell's loss, infinite if it cannot be, and the seconds that it took to know it."""

    loss: float
    seconds: float


class _Tree:
    """The cells as parameters: those of a tier's block and bandwidth are there if it has several
    NPUs, those of a pipeline if the plan has one."""

    def __init__(self, designs: Designs) -> None:
        self._designs, cells = designs, designs.cells
        space = designs.composed.config.space
        assert space.network is not None
        _check(space.network)
        self._tiers, self._plans = space.network.tiers, space.plan or Plans()
        self._rows = {(row.degrees, *row.values.values()): i for i, row in enumerate(cells.rows)}
        self._shapes = {shape.text: i for i, shape in enumerate(cells.shapes)}
        self._sizes = sorted({shape.sizes for shape in cells.shapes})
        self._npus = space.network.npus.at_least

    def cell(self, trial: optuna.Trial) -> int | None:
        """The number of the cell that a trial proposes; None if there is none."""
        shape, network = self._network(trial)
        row, plans, cells = self._row(trial), self._plans, self._designs.cells
        order = trial.suggest_categorical("order", range(len(plans.orders)))
        if row is None:
            return None
        spot = cells.candidates(cells.rows[row])
        here = np.flatnonzero((spot.shape == shape) & (spot.network == network))
        if not len(here):
            return None
        # Orders whose places are the same are one cell.
        return int(cells.first[row] + here[order % len(here)])

    def _network(self, trial: optuna.Trial) -> tuple[int, int]:
        sizes = self._sizes[trial.suggest_categorical("sizes", range(len(self._sizes)))]
        blocks, texts = list[str](), list[str]()
        for number, (tier, size) in enumerate(zip(self._tiers, sizes, strict=True)):
            several = [str(b) for b in tier.blocks], [each.text for each in tier.bandwidth]
            block, text = several[0][0], several[1][0]
            if size > 1:
                block = trial.suggest_categorical(f"block {number}", several[0])
                text = trial.suggest_categorical(f"bandwidth {number}", several[1])
            blocks.append(f"{block}({size})")
            texts.append(text)
        shape = self._shapes["_".join(blocks)]
        return shape, self._designs.cells.shapes[shape].texts.index(tuple(texts))

    def _row(self, trial: optuna.Trial) -> int | None:
        degrees = {
            axis: trial.suggest_categorical(axis, getattr(self._plans, axis))
            for axis in AXES
            if axis != "data"
        }
        degrees["data"] = self._npus // int(np.prod(list(degrees.values())))
        values = list[object]()
        for name in KEYS:
            several = getattr(self._plans, name)
            if not several:
                continue
            alone = name in ("interleave", "schedule") and degrees["pipeline"] == 1
            values.append(several[0] if alone else trial.suggest_categorical(name, several))
        return self._rows.get((tuple(degrees[axis] for axis in AXES), *values))


def _check(networks: Networks) -> None:
    """Raise :class:`DimsweepError` for a space with more than these parameters."""
    for name, given in (
        ("npus", networks.npus.at_least != networks.npus.at_most),
        ("memory", networks.memory),
        ("generators", networks.generators),
        ("tiers.algorithms", any(tier.algorithms for tier in networks.tiers)),
    ):
        if given:
            raise DimsweepError(
                "samplers are compared on tiers, sizes, blocks and bandwidths alone",
                where=f"space.network.{name}",
                hint="a study without it",
            )


def main(studies: Sequence[str] = _STUDIES) -> None:
    """Print how far above the proven best each sampler is after so many simulations."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in studies:
        print(f"{name}: ", end="")
        _compare(f"studies/which_network_{name}.yaml")


def _compare(file: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        words = [f"study={file}", "budget.gap=0", "what_if=null", f"results={folder}"]
        plan = plan_study(compose(words))
        proof, _ = searched(plan)
        seconds = time.process_time() - start
    assert isinstance(plan.stream, Designs)
    assert proof.best == proof.bound
    best = plan.config.objective[0].loss(proof.best)
    print(
        f"bounds: the best of {proof.cells:,}, proven with {proof.simulated} simulations in"
        f" {seconds:.0f} s of one core; above it, over five seeds, the mean (and the worst):"
    )
    print("sampler  " + "".join(f"{n:>20}" for n in (*_SIMULATIONS, "in that time")))
    known = dict[int, _Simulated]()
    for name, sampler in (
        ("random", optuna.samplers.RandomSampler),
        ("tpe", optuna.samplers.TPESampler),
        ("nsga2", lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=16)),
    ):
        gaps = np.array(
            [_run(plan.stream, sampler(seed=seed), known, seconds) / best - 1 for seed in _SEEDS]
        )
        means, worst = gaps.mean(axis=0) * 100, gaps.max(axis=0) * 100
        cells = (f"{a:.1f} % ({b:.1f} %)" for a, b in zip(means, worst, strict=True))
        print(f"{name:9}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def _run(
    designs: Designs,
    sampler: optuna.samplers.BaseSampler,
    known: dict[int, _Simulated],
    seconds: float,
) -> np.ndarray:
    """The least loss after each of _SIMULATIONS, and after so many ``seconds`` of proposals and
    simulations; ``known`` has what any search simulated."""
    study, tree, found = optuna.create_study(sampler=sampler), _Tree(designs), dict[int, float]()
    spent, in_time = 0.0, np.inf
    for _ in range(_PROPOSALS):
        start = time.process_time()
        trial = study.ask()
        number = tree.cell(trial)
        spent += time.process_time() - start
        if number is None:
            study.tell(trial, np.inf)
            continue
        if number not in known:
            known[number] = _simulate(designs, number)
        loss, took = known[number]
        study.tell(trial, loss)
        spent += took * (number not in found)
        if np.isfinite(loss):
            found[number] = loss
            in_time = min(in_time, loss) if spent <= seconds else in_time
        if len(found) >= _SIMULATIONS[-1] and spent > seconds:
            break
    least = np.minimum.accumulate(list(found.values()))
    return np.array([*(least[min(n, len(least)) - 1] for n in _SIMULATIONS), in_time])


def _simulate(designs: Designs, number: int) -> _Simulated:
    start = time.process_time()
    try:
        program = build_program(designs.compose(number)[1].config)
    except InfeasibleError:
        return _Simulated(np.inf, time.process_time() - start)
    return _Simulated(simulated(designs, number, program), time.process_time() - start)


if __name__ == "__main__":
    main(sys.argv[1:] or _STUDIES)
