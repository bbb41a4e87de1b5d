"""How far a cluster's parameters may be from its preset's, before anything of it was measured."""

import math
from collections.abc import Sequence
from statistics import fmean, pstdev

import numpy as np

from dimsweep.sweeper.calibrate.bands import EFFECTS, near, powers
from dimsweep.sweeper.calibrate.evidence import MODEL, Run, known, known_runs, plan_of
from dimsweep.sweeper.calibrate.parameters import Floats
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model

# What `dimsweep verify nccl` shows between machines: bandwidths between nodes are as far off as its
# worst kinds of GPU; how long cables and switches take, nobody prints.
_NETWORK, _LATENCY = 0.3, 0.7
# Kernels beside collectives are 18.9 % slower in the mean ("Characterizing Compute-Communication
# Overlap in GPU-Accelerated Distributed Deep Learning", arXiv 2507.03114).
_OVERLAP = -math.log(1 - 0.189)
# The shares of an iteration's time that products and kernels bound by memory commonly take: either
# may by itself be why one source is slower than another.
_PRODUCTS, _MEMORY = 0.6, 0.3
_LEAST = 0.05


def widths(config: Config) -> dict[str, float]:
    """The deviation of the logarithm of each parameter.  What sources differ in is laid at the
    door of computing and of memory each; those of memory and launches are at least how far the
    constants lie apart that stacks have, in dense models of any GPU (``dimsweep verify
    clusters``)."""
    bands = known().bands
    of_source = [v for name, v in zip(EFFECTS, bands.variances, strict=True) if name not in _OWN]
    spread = math.sqrt(sum(of_source))
    runs = [run for run in known_runs() if run.facts.kind == "dense"]
    return {
        "compute": spread / _PRODUCTS,
        "memory": max(spread / _MEMORY, _between(runs, "memory_efficiency")),
        "launch": max(_LEAST, _between(runs, "launch")),
        "overlap": _OVERLAP,
        "network": _NETWORK,
        "latency": _LATENCY,
    }


_OWN = ("plan", "run")  # what the runs of one source differ in among themselves


def _between(runs: list[Run], name: str) -> float:
    """The deviation among sources of the logarithm of what each had; a run has that of its stack,
    and the GPU's own."""
    sources: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        values = [math.log(value) for value in getattr(run.facts, name) if value]
        sources.setdefault((run.origin, run.facts.gpu), []).extend(values)
    means = [fmean(values) for values in sources.values() if values]
    return pstdev(means) if len(means) > 1 else _LEAST


def deviation(config: Config) -> float:
    """That of the logarithm of an iteration's time, measured over simulated, once the parameters
    are right: what one run of a source has by itself."""
    return _deviation(config, "run")


def unseen(config: Config) -> float:
    """That of a time of a plan that was not measured: what plans of a source are off by
    themselves, too."""
    return math.hypot(_deviation(config, "plan"), _deviation(config, "run"))


def shared(configs: Sequence[Config | None]) -> Floats:
    """(N, R) what measurements have of R errors of deviation 1 that those of near plans share,
    as runs of one source do; nothing where a measurement is of no plan of a transformer."""
    plans = [config and plan_of(config) for config in configs]
    of_plans = [n for n, plan in enumerate(plans) if plan]
    found = np.zeros((len(configs), len(of_plans)))
    if not of_plans:
        return found
    coordinates = np.array([plans[n] for n in of_plans])
    values, axes = np.linalg.eigh(near(coordinates, coordinates))
    found[of_plans] = axes * np.sqrt(np.maximum(values, 0.0))
    sizes = [_deviation(config, "plan") if config else 0.0 for config in configs]
    return found * np.array(sizes)[:, None]


def _deviation(config: Config, effect: str) -> float:
    """That of an effect of the model of errors; more in models with experts, and in narrow ones."""
    workload, plan = config.workload, plan_of(config)
    experts = isinstance(workload, Model) and bool(getattr(workload.model, "experts", 0))
    return known().bands.own(effect, powers(experts, *plan[MODEL][:1] if plan else ()))
