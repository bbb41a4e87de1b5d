"""Export a study to Optuna's storage, for optuna-dashboard and for Optuna's own analysis."""

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.rows import COMPLETE
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.trials import BROKEN

if TYPE_CHECKING:
    import optuna

_STORAGES = "the name of a journal file, or a URL such as sqlite:///study.db"
_ATTRIBUTES = ("origin", "compute_s", "exposed_s", "waiting_s", "cost_usd", "error")


def write_optuna(report: Report, storage: str) -> list[str]:
    """Write every cell as an Optuna study into ``storage``; return the names of the studies.

    ``storage`` is the name of a journal file, or a URL such as ``sqlite:///study.db``, into which
    each trial is a transaction of some 10 ms.  Raises :class:`DimsweepError` if the storage has a
    study of the same name.
    """
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    several = len(report.found) > 1
    names = [
        f"{report.study.name}: {naming.label(cell)}" if several else report.study.name
        for cell in report.found
    ]
    try:
        with _reading(storage):
            opened = (
                RDBStorage(storage)
                if "://" in storage
                else JournalStorage(JournalFileBackend(storage))
            )
            for cell, name in zip(report.found, names, strict=True):
                optuna_study(cell, opened, name)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise DimsweepError(
            f"the storage already has a study {name!r}",
            where=storage,
            hint="give another storage",
            code="duplicate",
        ) from error
    except ImportError as error:  # Optuna's own, of what SQLAlchemy needs for such a URL
        raise DimsweepError(
            str(error), where=storage, hint=_STORAGES, code="inaccessible"
        ) from error
    return names


@contextmanager
def _reading(storage: str) -> Iterator[None]:
    """Return a context that turns errors of Optuna and SQLAlchemy into :class:`DimsweepError`."""
    import optuna

    try:
        yield
    except (ImportError, OSError, DimsweepError, optuna.exceptions.DuplicatedStudyError):
        raise  # which say enough
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DimsweepError(
            f"it is not a readable Optuna storage: {reason}",
            where=storage,
            hint=_STORAGES,
            code="inaccessible",
        ) from error


def optuna_study(
    cell: CellSummary,
    storage: "optuna.storages.BaseStorage | None" = None,
    name: str | None = None,
) -> "optuna.Study":
    """Return the trials of a cell as an Optuna study in ``storage`` or in memory.

    Its parameters are the bandwidths (GB/s) and the searched keys, and its values the objectives;
    the origin, the parts of the time, the cost and the error are attributes of a trial.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    columns = [objective.column for objective in cell.objectives]
    columns += ["trial", "state", *cell.design, *_ATTRIBUTES]
    rows = pd.concat(list(cell.trials.all_trials(columns))).sort_values("trial")
    rows = rows[rows["state"].isin([COMPLETE, *BROKEN])]
    distributions = {key: _distribution(rows[key]) for key in cell.design}
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=[objective.direction for objective in cell.objectives],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([objective.column for objective in cell.objectives])
    study.add_trials([_trial(row, cell, distributions) for row in rows.to_dict("records")])
    return study


def _distribution(values: pd.Series) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    known = values.dropna()
    if pd.api.types.is_numeric_dtype(known):
        return FloatDistribution(float(known.min()), float(known.max()))
    return CategoricalDistribution(sorted(set(known)))


def _trial(
    row: Mapping[str, Any],
    cell: CellSummary,
    distributions: "Mapping[str, optuna.distributions.BaseDistribution]",
) -> "optuna.trial.FrozenTrial":
    from optuna.trial import TrialState, create_trial

    given = {key: row[key] for key in distributions if not _is_missing(row[key])}
    complete = row["state"] == COMPLETE
    return create_trial(
        state=TrialState.COMPLETE if complete else TrialState.FAIL,
        params=given,
        distributions={key: distributions[key] for key in given},
        values=[objective.value(row) for objective in cell.objectives] if complete else None,
        user_attrs={name: row[name] for name in _ATTRIBUTES if not _is_missing(row.get(name))},
    )


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
