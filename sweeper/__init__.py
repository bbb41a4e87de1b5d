"""dimsweep's sweeper: studies in YAML, searched by Optuna, simulated on Ray, recorded in Parquet.

import sweeper
sweeper.load("results/libra_gpt3_4d").to_pandas()
"""

from sweeper.ledger.ledger import load

__all__ = ["load"]
