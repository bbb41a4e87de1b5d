"""dimsweep: which network, memory and parallel plan a training cluster should have.

import dimsweep
dimsweep.simulate(workload="gpt3_175b", cluster="dgx_h100", nodes=16).time
dimsweep.load("results/libra_gpt3_4d").to_pandas()

study = dimsweep.Study.load("mine.yaml").run()
study.best, study.bound, study.plot()
dimsweep.compare(study, "results/libra_gpt3_4d")

``dimsweep.engine`` is the simulator, by itself; ``dimsweep.sweeper`` searches over it.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dimsweep.sweeper.api.descent import DescentSampler
    from dimsweep.sweeper.api.results import Results, compare
    from dimsweep.sweeper.api.simulate import simulate
    from dimsweep.sweeper.api.study import Study
    from dimsweep.sweeper.ledger.stored import load

# In a checkout engine/ and sweeper/ lie beside this folder, and here are links to them, or text
# files where a clone has no links.  Modules come from the real folders, so that tracebacks,
# debuggers and coverage name the files that people edit.  A wheel holds both folders in here.
_HERE = os.path.dirname(os.path.realpath(__file__))
if os.path.islink(_ENGINE := os.path.join(_HERE, "engine")) or not os.path.isdir(_ENGINE):
    __path__.insert(0, os.path.dirname(_HERE))

__all__ = ["DescentSampler", "Results", "Study", "compare", "load", "simulate"]

_FOUND_IN = {
    "load": "dimsweep.sweeper.ledger.stored",
    "Results": "dimsweep.sweeper.api.results",
    "compare": "dimsweep.sweeper.api.results",
    "DescentSampler": "dimsweep.sweeper.api.descent",
    "simulate": "dimsweep.sweeper.api.simulate",
    "Study": "dimsweep.sweeper.api.study",
}


def __getattr__(name: str) -> Any:
    """On first use: the command line need not wait for Arrow to show its help."""
    if name in _FOUND_IN:
        return getattr(import_module(_FOUND_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
