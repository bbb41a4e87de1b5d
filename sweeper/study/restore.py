"""Restore configurations and trials from the records and rows of a study."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import (
    BANDWIDTH,
    CHANGE,
    FIDELITY,
    RECHECK,
    WHAT_IF,
    parse_changes,
)
from dimsweep.sweeper.part import parse_bandwidth
from dimsweep.sweeper.space.space import Choice, Parameter, build_parameter
from dimsweep.sweeper.space.trials import MARK, Setting, Trial, Trials

if TYPE_CHECKING:
    import pandas as pd

    Row = Mapping[str, Any] | pd.Series

BANDWIDTHS = "topology.bandwidth"


def load_config(study: StudyRecord, record: CellRecord) -> Config:
    """Return the configuration of a cell from the study's record."""
    stored = {key: value for key, value in study.config.items() if key != "files"}
    return Config.from_plain(stored | dict(record.config or {}))


def load_design(study: StudyRecord, record: CellRecord, row: "Row") -> Config:
    """Return the configuration of a trial, from its row."""
    config = load_config(study, record)
    return apply_trial(config, load_trial(config, row))


def apply_trial(config: Config, trial: Trial) -> Config:
    """Return a cell's configuration with a trial's settings and bandwidth split."""
    values = dict(trial.parameters.keys_only)
    if trial.bandwidth is not None and config.topology.file is None:
        values[BANDWIDTHS] = format_split(trial.bandwidth)
    return config.with_values(values)


def load_trials(config: Config, rows: pa.Table) -> Trials:
    """Return the trials that rows of a cell describe, as a table."""
    needed = {"trial", "origin", FIDELITY.name, *CHANGE, *config.space.parameters}
    needed.update(BANDWIDTH.among(rows.column_names))
    own = rows.select([name for name in rows.column_names if name in needed])
    return Trials.from_list([load_trial(config, row) for row in own.to_pylist()])


def load_trial(config: Config, row: "Row") -> Trial:
    """Return the trial of a row of a cell; rows have splits in GB/s, and other keys as text."""
    split = None
    if config.space.bandwidth.is_searched:
        given = [row[name] for name in BANDWIDTH.among(list(row.keys()))]
        known = [each for each in given if each is not None and not np.isnan(each)]
        if not known or not np.isfinite(known).all():
            problem = "the bandwidths of some rows are missing"
            raise DimsweepError(problem, code="damaged")
        split = tuple(np.rint(np.array(known) * 1e9).tolist())
    extra: dict[str, Any] = {FIDELITY.name: row[FIDELITY.name]} if row["origin"] == RECHECK else {}
    if row["origin"] == WHAT_IF:
        extra = _what_if_settings({name: row[name] for name in CHANGE}, split is not None)
    own = {
        name: parse_value(build_parameter(spec), row[name])
        for name, spec in config.space.parameters.items()
        if name not in extra
    }
    return Trial(int(row["trial"]), str(row["origin"]), split, Setting(own | extra))


def parse_value(axis: Parameter, text: object) -> Any:
    """Return the value of a searched key (``axis``) from a row's text.

    Raises :class:`DimsweepError` for a text that no search writes.
    """
    try:
        if isinstance(axis, Choice):
            return next(value for value in axis.values if str(value) == text)
        if not isinstance(text, str):
            raise TypeError
        if axis.unit:
            return text
        return int(text) if axis.integer else float(text)
    except (StopIteration, TypeError, ValueError) as error:
        problem = f"a row has the value {text!r} for a searched key, which no search proposes"
        raise DimsweepError(problem, code="damaged") from error


def _what_if_settings(columns: dict[str, str], searched: bool) -> dict[str, Any]:
    """Return the keys that a what-if changes, with ``columns``; a searched split is left out."""
    changes = parse_changes(columns["changes"])
    own = {name: value for name, value in changes.items() if name != BANDWIDTHS or not searched}
    return {**own, MARK: columns}


def format_decimal(number: Fraction) -> str:
    """Format a number as a decimal; an infinite decimal is cut to the digits of a double."""
    exact = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{exact.normalize():f}" if Fraction(exact) == number else repr(float(number))


def format_split(split: Sequence[float]) -> list[str]:
    """Return the bandwidths of a split (bytes/s, rounded) as texts for a configuration."""
    return [f"{format_decimal(Fraction(round(each), 10**9))} GB/s" for each in split]


def parse_split(bandwidths: Sequence[str]) -> tuple[float, ...]:
    """Return bandwidths of a configuration in bytes/s, rounded as in a trial."""
    return tuple(float(round(parse_bandwidth(each))) for each in bandwidths)
