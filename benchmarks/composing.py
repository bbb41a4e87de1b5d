"""What a cell of a search costs before it is simulated: its configuration, and lowering it."""

import gc
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.composition import compose_with_hydra
from dimsweep.sweeper.config.overrides import read_override
from dimsweep.sweeper.places import list_groups
from dimsweep.sweeper.questions.split.grid import Grid
from dimsweep.sweeper.simulation.program import build_program

_STUDY = ("study=libra_gpt3_4d",)
_MODELS = ("llama3_8b", "llama3_70b", "llama3_405b", "gpt3_175b", "mixtral_8x22b", "deepseek_v3")


def main() -> None:
    """Print the CPU time of a cell, by what it differs in from cells before it."""
    chips = list_groups()["npu"]
    compose(_STUDY)  # Hydra's plug-ins and the files of the defaults
    first, *others = [[f"workload={m}", f"npu={c}"] for m, c in zip(_MODELS, chips, strict=False)]
    compose(first)
    gc.collect()
    gc.freeze()  # as in a driver, whose modules were looked at by the collector before
    whole = [partial(compose_with_hydra, list(map(read_override, each))) for each in others]
    hydras = _print_median("Hydra alone, two options", whole)
    _print_median(
        "compose two options not seen before", [partial(compose, o) for o in others], hydras
    )
    options = [[f"workload={model}", f"npu={chip}"] for model in _MODELS for chip in chips]
    together = [each for each in options if each not in (first, *others)]
    _print_median(
        "compose options not seen together", [partial(compose, each) for each in together], hydras
    )
    for name, axes in (
        ("values", f"collective.chunks={','.join(map(str, range(1, 201)))}"),
        ("options", f"npu={','.join(chips)}"),
    ):
        study = compose([*_STUDY, axes], may_sweep=True)
        grid = Grid(study, study.config.grid, may_prune=True)
        _print_median(
            f"a cell of a grid of {name}",
            [partial(grid.compose, n) for n in range(len(grid))],
            hydras,
        )
    configs = [compose(_STUDY, {"collective.chunks": n}).config for n in range(1, 201, 10)]
    _print_median(
        "lower GPT-3 on the 4D network", [partial(build_program, c) for c in configs], hydras
    )


def _print_median(
    what: str, runs: Sequence[Callable[[], object]], unit: float | None = None
) -> float:
    """Print and return the median CPU time of some runs, and its ratio to ``unit``."""
    times = [_cpu_seconds(run) for run in runs]
    median = statistics.median(times)
    ratio = "" if unit is None else f", {median / unit:.2f} of Hydra alone"
    print(f"{what}: {median * 1e3:.1f} ms (median of {len(times)}{ratio})", flush=True)
    return median


def _cpu_seconds(run: Callable[[], object]) -> float:
    start = process_time()
    run()
    return process_time() - start
