"""What gains are told against: the study's baseline in each scenario, or a cell's equal split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import BASELINE, COMPLETE
from dimsweep.sweeper.ledger.schema import BANDWIDTH

Baselines = Mapping[tuple[str, ...], tuple[CellRecord, pd.Series]]


@dataclass(frozen=True)
class Reference:
    """What a cell's best trial is compared with: its ``row``, over the dimensions ``dims``; its
    ``name`` in a sentence, and ``head`` above a column.  One that is common to a scenario's cells
    tells which of them is better, too; an equal split is each cell's own."""

    name: str
    head: str
    row: pd.Series
    dims: tuple[str, ...]
    is_common: bool = False


def reference_of(
    study: StudyRecord, cell: CellRecord, baselines: Baselines, equal: pd.Series | None
) -> Reference | None:
    """What a cell is compared with: in a study with a baseline that of the cell's scenario, and
    where it cannot be simulated nothing; else the equal split, if there is one."""
    if not study.baseline:
        return None if equal is None else Reference("the equal split", "equal", equal, cell.dims)
    found = baselines.get(tuple(study.scenario(cell.coordinates).values()))
    if found is None:
        return None
    today, row = found
    size = "" if today.n_npus == cell.n_npus else f" of {today.n_npus:,} NPUs"
    return Reference(f"the baseline{size}", "baseline", row, today.dims, is_common=True)


def baselines_of(rows: pd.DataFrame, study: StudyRecord) -> Baselines:
    """The baseline's cell and row in each scenario in which it is complete."""
    own = rows[(rows["origin"] == BASELINE) & (rows["state"] == COMPLETE)]
    places = {(row["cell"], row["key"]): i for i, row in own[["cell", "key"]].iterrows()}
    return {
        tuple(study.scenario(cell.coordinates).values()): (cell, own.loc[place])
        for cell in study.baselines
        if (place := places.get((cell.cell, cell.key))) is not None
    }


def without_baseline(rows: pd.DataFrame, study: StudyRecord) -> list[tuple[Mapping[str, str], str]]:
    """The scenarios (values of their axes) in which the baseline cannot be simulated, and why."""
    found = [(each.coordinates, each.error) for each in study.no_baselines]
    failed = rows[(rows["origin"] == BASELINE) & (rows["state"] != COMPLETE)]
    errors = dict(zip(failed["key"], failed["error"], strict=True))
    found += [(c.coordinates, str(errors[c.key])) for c in study.baselines if c.key in errors]
    return [(study.scenario(coordinates), error) for coordinates, error in found]


def equal_split(
    complete: pd.DataFrame, cell: CellRecord, parameters: Sequence[str], config: Mapping[str, Any]
) -> pd.Series | None:
    """The row whose dimensions have equal bandwidths, as near as the grid of the space allows, and
    whose other keys are those of the configuration.

    What a search tries first as the equal split need not be it: constraints may forbid it, and a
    searched key may not have the configuration's value among its own.
    """
    step = value_of(config, "space.bandwidth.step")
    near = units.parse(step, units.BANDWIDTH) / 1e9 if isinstance(step, str) else 0.0
    for _, row in complete[complete["origin"] == "equal"].iterrows():
        split = row[BANDWIDTH.names(len(cell.dims))].to_numpy(float)
        is_even = split.max() - split.min() <= max(1.5 * near, 1e-3 * split.mean())
        if is_even and all(_is(row[key], value_of(config, key)) for key in parameters):
            return row
    return None


def value_of(config: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted key of a stored configuration; None if there is none."""
    node: Any = config
    for part in name.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _is(text: str, value: Any) -> bool:
    """Whether the text of a row is a value of the configuration; of one that is not set, yes."""
    if value is None or str(value) == str(text):
        return True
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return False
