"""Configurations and trials from what a study has kept of them."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import BANDWIDTH, CHANGE, FIDELITY, RECHECK, WHAT_IF, changes_in
from dimsweep.sweeper.part import BANDWIDTH as QUANTITY
from dimsweep.sweeper.space.space import Choice, Parameter, parameter
from dimsweep.sweeper.space.trials import MARK, Setting, Trial, Trials

if TYPE_CHECKING:
    import pandas as pd

    Row = Mapping[str, Any] | pd.Series

BANDWIDTHS = "topology.bandwidth"


def config_of(study: StudyRecord, record: CellRecord) -> Config:
    """The configuration of a cell."""
    stored = {key: value for key, value in study.config.items() if key != "files"}
    return Config.of(stored | dict(record.config or {}))


def design_of(study: StudyRecord, record: CellRecord, row: "Row") -> Config:
    """The configuration of a trial, by its row."""
    config = config_of(study, record)
    return designed(config, trial_of(config, row))


def designed(config: Config, trial: Trial) -> Config:
    """A cell's configuration with what a trial sets, its split too."""
    values = dict(trial.parameters.keys_only)
    if trial.bandwidth is not None and config.topology.file is None:
        values[BANDWIDTHS] = split_text(trial.bandwidth)
    return config.changed(values)


def trials_of(config: Config, rows: pa.Table) -> Trials:
    """The trials of a cell's rows."""
    needed = {"trial", "origin", FIDELITY.name, *CHANGE, *config.space.parameters}
    needed.update(BANDWIDTH.among(rows.column_names))
    own = rows.select([name for name in rows.column_names if name in needed])
    return Trials.of([trial_of(config, row) for row in own.to_pylist()])


def trial_of(config: Config, row: "Row") -> Trial:
    """The trial of a row of a cell's.  Splits are whole numbers of bytes/s; other keys are text."""
    split = None
    if config.space.bandwidth.is_searched:
        given = [row[name] for name in BANDWIDTH.among(list(row.keys()))]
        known = [each for each in given if each is not None and not np.isnan(each)]
        if not known or not np.isfinite(known).all():
            raise DimsweepError("some rows do not say which bandwidths were tried")
        split = tuple(np.rint(np.array(known) * 1e9).tolist())
    again: dict[str, Any] = {FIDELITY.name: row[FIDELITY.name]} if row["origin"] == RECHECK else {}
    if row["origin"] == WHAT_IF:
        again = _changed({name: row[name] for name in CHANGE}, split is not None)
    own = {
        name: value_of(parameter(spec), row[name])
        for name, spec in config.space.parameters.items()
        if name not in again
    }
    return Trial(int(row["trial"]), str(row["origin"]), split, Setting(own | again))


def value_of(axis: Parameter, text: object) -> Any:
    """The value of a searched key, of which a row has the text; raises :class:`DimsweepError` for a
    text that the search cannot have written."""
    try:
        if isinstance(axis, Choice):
            return next(value for value in axis.values if str(value) == text)
        if not isinstance(text, str):
            raise TypeError
        if axis.unit:
            return text
        return int(text) if axis.integer else float(text)
    except (StopIteration, TypeError, ValueError) as error:
        what = f"a row has {text!r} for a key that is searched, which no search proposes"
        raise DimsweepError(what) from error


def _changed(told: dict[str, str], searched: bool) -> dict[str, Any]:
    """What a what-if sets, and which one it is; where a split is searched it is no setting of a
    trial, but its own."""
    changes = changes_in(told["changes"])
    own = {name: value for name, value in changes.items() if name != BANDWIDTHS or not searched}
    return {**own, MARK: told}


def decimal(number: Fraction) -> str:
    """A number as people write it, all digits of a double where it has no end."""
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    text = f"{exact.normalize():f}" if Fraction(exact) == number else repr(float(number))
    return text


def split_text(split: Sequence[float]) -> list[str]:
    """Bandwidths in whole bytes/s as a configuration has them."""
    return [f"{decimal(Fraction(round(each), 10**9))} GB/s" for each in split]


def split_of(bandwidths: Sequence[str]) -> tuple[float, ...]:
    """Bandwidths of a configuration in whole bytes/s, as a trial has them."""
    return tuple(float(round(QUANTITY(each))) for each in bandwidths)
