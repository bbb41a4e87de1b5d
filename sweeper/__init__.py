"""dimsweep's sweeper: studies in YAML, searched by Optuna, simulated on Ray, recorded in Parquet.

import sweeper
sweeper.load("results/libra_gpt3_4d").to_pandas()

study = sweeper.Study.load("mine.yaml").run()
study.best, study.bound, study.plot()
sweeper.compare(study, "results/libra_gpt3_4d")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeper.api.results import Results, compare
    from sweeper.api.study import Study
    from sweeper.ledger.load import load

__all__ = ["Results", "Study", "compare", "load"]

_FOUND_IN = {
    "load": "sweeper.ledger.load",
    "Results": "sweeper.api.results",
    "compare": "sweeper.api.results",
    "Study": "sweeper.api.study",
}


def __getattr__(name: str) -> Any:
    """On first use: the command line need not wait for Arrow to show its help."""
    if name in _FOUND_IN:
        return getattr(import_module(_FOUND_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
