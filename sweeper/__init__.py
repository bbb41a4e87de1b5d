"""dimsweep's sweeper: studies in YAML, searched by Optuna, simulated on Ray, recorded in Parquet.

import sweeper
sweeper.load("results/libra_gpt3_4d").to_pandas()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeper.ledger.load import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """``load`` on first use: the command line need not wait for Arrow to show its help."""
    if name == "load":
        from sweeper.ledger.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
