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
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dimsweep.sweeper.api.descent import DescentSampler
    from dimsweep.sweeper.api.results import Results, compare
    from dimsweep.sweeper.api.simulate import simulate
    from dimsweep.sweeper.api.study import Study
    from dimsweep.sweeper.ledger.stored import load

_HERE = os.path.dirname(os.path.realpath(__file__))


class _RoomFinder:
    """Finds engine and sweeper in the folders of a checkout that lie beside this one.

    In this folder are links to them, or text files where a clone has no links.  Modules come from
    the real folders, so that tracebacks, debuggers and coverage name the files that people edit.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a room's package; None for another module."""
        package, _, room = name.partition(".")
        if package != __name__ or room not in ("engine", "sweeper"):
            return None
        folder = os.path.join(os.path.dirname(_HERE), room)
        file = os.path.join(folder, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[folder])


# A wheel holds both folders in here.
if os.path.islink(_ENGINE := os.path.join(_HERE, "engine")) or not os.path.isdir(_ENGINE):
    sys.meta_path.insert(0, _RoomFinder)

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
