"""The trials of stored rows."""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.config.schema import Config
from sweeper.ledger.rows import CHANGE, RECHECK, WHAT_IF
from sweeper.space.space import parameter
from sweeper.space.trials import MARK, Trials
from sweeper.study.kept import value_of

SPLIT = "topology.bandwidth"  # where a split is searched it is no setting of a trial, but its own


def trials_of(config: Config, rows: pa.Table) -> Trials:
    """The trials of a cell's rows, with the keys that the rows have.  Splits are whole numbers of
    bytes/s; other keys are text."""
    split = None
    if config.space.bandwidth.is_searched:
        names = [name for name in rows.column_names if name.startswith("bandwidth_")]
        columns = [rows[name].to_numpy() for name in names if rows[name].null_count < len(rows)]
        split = np.rint(np.column_stack(columns) * 1e9)
    axes = {name: parameter(spec) for name, spec in config.space.parameters.items()}
    texts = {name: rows[name].to_pylist() for name in axes}
    origins = rows["origin"].to_pylist()
    settings: list[dict[str, Any]] = []
    for i, origin in enumerate(origins):
        again = {"fidelity": rows["fidelity"][i].as_py()} if origin == RECHECK else {}
        if origin == WHAT_IF:
            again = _changed({name: rows[name][i].as_py() for name in CHANGE}, split is not None)
        own = {name: value_of(axes[name], texts[name][i]) for name in axes if name not in again}
        settings.append(own | again)
    return Trials.build(rows["trial"].to_numpy(), origins, split, settings)


def _changed(told: dict[str, str], searched: bool) -> dict[str, Any]:
    """What a what-if sets, and which one it is; a split's is in its bandwidths already."""
    changes = json.loads(told["changes"])
    own = {name: value for name, value in changes.items() if name != SPLIT or not searched}
    return {**own, MARK: told}
