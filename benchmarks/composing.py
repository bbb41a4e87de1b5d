"""What a cell of a search costs before it is simulated: its configuration, and lowering it."""

import gc
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.places import groups
from dimsweep.sweeper.simulation.program import build_program

_STUDY = ("study=libra_gpt3_4d",)
_MODELS = ("llama3_8b", "llama3_70b", "llama3_405b", "gpt3_175b", "mixtral_8x22b", "deepseek_v3")


def main() -> None:
    """Print the CPU time of a cell, by what it differs in from cells before it."""
    chips = groups()["npu"]
    compose(_STUDY)  # Hydra's plug-ins and the files of the defaults
    for override in [*(f"workload={name}" for name in _MODELS), *(f"npu={name}" for name in chips)]:
        compose([override])
    gc.collect()
    gc.freeze()  # as in a driver, whose modules were looked at by the collector before
    options = [[f"workload={model}", f"npu={chip}"] for model in _MODELS for chip in chips]
    _tell("compose options not seen together before", [partial(compose, each) for each in options])
    values = [{"collective.chunks": n} for n in range(1, 201)]
    _tell("compose values", [partial(compose, _STUDY, v, may_sweep=True) for v in values])
    configs = [compose(_STUDY, v, may_sweep=True).config for v in values[::10]]
    _tell("lower GPT-3 on the 4D network", [partial(build_program, c) for c in configs])


def _tell(what: str, runs: Sequence[Callable[[], object]]) -> None:
    times = [_cpu_seconds(run) for run in runs]
    print(f"{what}: {statistics.median(times) * 1e3:.1f} ms (median of {len(times)})", flush=True)


def _cpu_seconds(run: Callable[[], object]) -> float:
    start = process_time()
    run()
    return process_time() - start
