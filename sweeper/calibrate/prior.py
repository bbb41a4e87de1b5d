"""How far a cluster's parameters may be from its preset's, before anything of it was measured."""

import math
from statistics import fmean, pstdev

from dimsweep.sweeper.build.bands import EFFECTS
from dimsweep.sweeper.build.evidence import Run, known, known_runs
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model

# What `dimsweep verify nccl` shows between machines: bandwidths between nodes are as far off as its
# worst kinds of GPU; how long cables and switches take, nobody prints.
_NETWORK, _LATENCY = 0.3, 0.7
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
    are right: what one run of a source has by itself; more in models with experts."""
    bands, workload = known().bands, config.workload
    experts = isinstance(workload, Model) and bool(getattr(workload.model, "experts", 0))
    return math.sqrt(bands.variances[-1]) * (bands.experts if experts else 1.0)
