"""What a cluster's file says of its calibration, and how sure times on it are."""

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import GIVE, explained
from dimsweep.sweeper.calibrate.bands import Band
from dimsweep.sweeper.calibrate.evidence import known
from dimsweep.sweeper.calibrate.parameters import (
    Floats,
    Parameter,
    changes,
    parameters_of,
    step_of,
)
from dimsweep.sweeper.calibrate.posterior import DEGREES, Posterior
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.simulate import simulate

_ROUNDING = 1e-6  # of what is written in four digits
_DOUBLING = 0.02  # by which an error's deviation grows with each doubling of GPUs beyond those
# that were measured: sources show this at other scales (the effect of scale in `bands`)


class _Told(BaseModel):
    """What ``dimsweep calibrate`` writes of a posterior."""

    parameters: list[str]
    keys: dict[str, str | float | list[str | float]]
    covariance: list[list[Annotated[float, Field(allow_inf_nan=False)]]]
    scale: Annotated[float, Field(gt=0, le=1e3)]
    error: Annotated[float, Field(ge=0, le=1e3)]
    measured: Annotated[int, Field(gt=0)]
    gpus: Annotated[int, Field(gt=0)]

    @model_validator(mode="after")
    def _is_square(self) -> Self:
        sizes = {len(self.covariance), *map(len, self.covariance)}
        if sizes - {len(self.parameters)}:
            n = len(self.parameters)
            raise ValueError(f"covariance has {n} rows of {n} numbers")
        if n_below := int(np.sum(np.linalg.eigvalsh(np.array(self.covariance)) < -_ROUNDING)):
            raise ValueError(f"covariance is none: {n_below} variances are below zero")
        return self


def stored(
    parameters: list[Parameter],
    posterior: Posterior,
    *,
    error: float,
    measured: int,
    gpus: int,
    values: dict[str, Any],
) -> dict[str, Any]:
    """The posterior as a cluster's file has it; ``values`` are those of the keys that it set."""
    return {
        "parameters": [each.name for each in parameters],
        "keys": {key: list(v) if isinstance(v, list) else v for key, v in values.items()},
        "covariance": [[float(f"{x:.4g}") for x in row] for row in posterior.covariance],
        "scale": round(posterior.scale, 4),
        "error": round(error, 4),
        "measured": measured,
        "gpus": gpus,
    }


def overridden(config: Config) -> str:
    """The first key that is not as the calibration left it; empty if all are."""
    for key, value in _checked(config).keys.items():
        try:
            now = config.value(key)
        except DimsweepError:
            return key
        if now != value and list(np.atleast_1d(now)) != list(np.atleast_1d(value))[: np.size(now)]:
            return str(key)
    return ""


def band(config: Config) -> Band:
    """The intervals of the error of a time on a calibrated cluster, from the posterior: what its
    parameters leave open, by the time's own slopes, and the error of a plan that was not measured,
    which grows with the GPUs beyond those that were.  Errors that wide have the ends of those of
    left out sources."""
    return _band(json.dumps(config.text, default=str))


def measured(config: Config) -> int:
    """How many measurements there were."""
    return _checked(config).measured


def _checked(config: Config) -> _Told:
    """Raises :class:`DimsweepError` naming what ``dimsweep calibrate`` cannot have written."""
    try:
        return _Told.model_validate(config.calibration)
    except ValidationError as error:
        fault = explained(error)
        where = f"calibration.{fault.where}".removesuffix(".")
        hint = fault.hint if fault.hint != GIVE else ""
        raise DimsweepError(
            fault.what, where=where, hint=hint or "`dimsweep calibrate` writes it"
        ) from error


@lru_cache(64)
def _band(text: str) -> Band:
    config = Config.of(json.loads(text))
    told = _checked(config)
    slopes = slopes_of(config, told.parameters, lambda own: math.log(simulate(own).time))
    covariance = np.array(told.covariance, float)
    beyond = max(0.0, math.log2(config.topology.build().n_npus / max(1, told.gpus)))
    posterior = Posterior(np.zeros(len(covariance)), covariance, told.scale, DEGREES)
    error = math.hypot(told.error, _DOUBLING * beyond / posterior.scale)
    return Band.around(0.0, posterior.deviation(slopes, error), known().bands.ends)


def slopes_of(config: Config, names: list[str], logarithm: Callable[[Config], float]) -> Floats:
    """(P,) the slopes of the logarithm of what is simulated, downwards: no share passes 1."""
    known = {each.name: each for each in parameters_of(config)}
    middle, found = logarithm(config), []
    for name in names:
        if name not in known:
            found.append(0.0)  # a dimension that this network lacks
            continue
        step = step_of(name)
        changed = changes(config, [known[name]], np.array([-step]))
        found.append((middle - logarithm(config.changed(changed))) / step)
    return np.array(found)
