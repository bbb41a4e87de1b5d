"""Configurations from what a study has kept of them."""

from collections.abc import Mapping
from typing import Any

from sweeper.config.schema import Config
from sweeper.ledger.record import CellRecord, StudyRecord
from sweeper.space.space import Choice, Parameter, parameter


def config_of(study: StudyRecord, record: CellRecord) -> Config:
    """The configuration of a cell."""
    stored = {key: value for key, value in study.config.items() if key != "files"}
    return Config.of(stored | dict(record.config or {}))


def value_of(axis: Parameter, text: str) -> Any:
    """The value of a searched key, of which a row has the text."""
    if isinstance(axis, Choice):
        return next(value for value in axis.values if str(value) == text)
    if axis.unit:
        return text
    return int(text) if axis.integer else float(text)


def design_of(study: StudyRecord, record: CellRecord, row: Mapping[str, Any]) -> Config:
    """The configuration of a trial, whose row says what was searched: other keys, and the split."""
    config = config_of(study, record)
    values = {
        name: value_of(parameter(spec), row[name]) for name, spec in config.space.parameters.items()
    }
    if config.space.bandwidth.is_searched:
        split = [row[f"bandwidth_{d}_GBps"] for d in range(len(record.dims))]
        values["topology.bandwidth"] = [f"{each!r} GB/s" for each in map(float, split)]
    return config.changed(values)
