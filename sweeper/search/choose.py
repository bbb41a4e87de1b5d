"""The samplers by name, and the choice of a sampler for a study."""

from dimsweep.engine import DimsweepError, Prices, suggest_names
from dimsweep.engine.registry import Registry
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.objective import follows_slopes
from dimsweep.sweeper.search.blocks import GridSampler, QmcSampler, RandomSampler, grid_size
from dimsweep.sweeper.search.cmaes import CmaEsSampler
from dimsweep.sweeper.search.descent import DescentSampler
from dimsweep.sweeper.search.optuna_sampler import GpSampler, Nsga2Sampler, TpeSampler
from dimsweep.sweeper.search.relay import (
    HANDOVER,
    CombinedSampler,
    DescentThenCmaEs,
    TpeThenCmaEs,
    TpeThenQmc,
)
from dimsweep.sweeper.search.sampler import Sampler, Task
from dimsweep.sweeper.space.space import Space
from dimsweep.sweeper.space.split import PartsSpace
from dimsweep.sweeper.space.trials import Trial

AUTO, GRID = "auto", "grid"
# A new sampler is one file, and one line here: search.sampler -> its class.
SAMPLERS: Registry[type[Sampler]] = Registry(
    "sampler",
    {
        "random": RandomSampler,
        "qmc": QmcSampler,
        "tpe": TpeSampler,
        "cmaes": CmaEsSampler,
        "gp": GpSampler,
        "nsga2": Nsga2Sampler,
        "descent": DescentSampler,
        "descent+tpe": CombinedSampler,
        "descent+tpe+cmaes": DescentThenCmaEs,
        "tpe+cmaes": TpeThenCmaEs,
        "tpe+qmc": TpeThenQmc,
        GRID: GridSampler,
    },
)


def sampler_name(config: Config, space: Space) -> str:
    """Return the name of the sampler that a configuration uses; "grid" if nothing is searched.

    ``auto`` is the grid if the study searches only splits of parts for sale, and the budget covers
    them all. Otherwise it is the descent with TPE if the objective has slopes in the splits, else
    TPE. After :data:`HANDOVER` trials, when TPE becomes slow, CMA-ES follows, or a Sobol sequence
    for two objectives.
    """
    if space.n_unit == 0:
        return GRID
    if config.search.sampler != AUTO:
        return config.search.sampler
    listed = space.split if isinstance(space.split, PartsSpace) else None
    if listed and not space.parameters and len(listed) <= config.budget.trials:
        return GRID
    has_slopes = (
        space.split is not None
        and follows_slopes(config.objective)
        and not config.by_message
        and "fidelity" not in space.parameters
    )
    begin = "descent+tpe" if has_slopes else "tpe"
    if config.budget.trials <= HANDOVER:
        return begin
    return f"{begin}+qmc" if len(config.objective) > 1 else f"{begin}+cmaes"


def n_trials(config: Config, space: Space, first: list[Trial], prices: Prices | None) -> int:
    """Return the maximum number of trials of a search."""
    if not space.n_unit:
        return 1
    limit = config.budget.trials
    if sampler_name(config, space) != GRID:
        return limit
    return grid_size(_task(config, space, first, prices), limit)


def is_exhaustive(config: Config, space: Space, first: list[Trial], prices: Prices | None) -> bool:
    """Return whether a search tries all designs of its space."""
    limit = config.budget.trials
    if not space.n_unit or sampler_name(config, space) != GRID:
        return False
    return grid_size(_task(config, space, first, prices), limit + 1) <= limit


def explain_choice(config: Config, name: str, trials: int) -> str | None:
    """Return a note on an unexpected choice, or None.

    It says why ``auto`` became the sampler ``name``, or that ``trials`` are a part of a grid.
    """
    if config.search.sampler == GRID and trials == config.budget.trials:
        return f"search=grid: only the grid's first {trials:,} trials (budget.trials)"
    if config.search.sampler != AUTO or config.budget.trials <= HANDOVER or "+" not in name:
        return None
    begin, _, then = name.rpartition("+")
    return (
        f"search=auto: {begin} for {HANDOVER:,} trials and then {then}, since TPE becomes slower "
        "with every trial"
    )


def learns_from_slopes(name: str) -> bool:
    """Return whether the named sampler learns from slopes, the time's derivatives by bandwidth."""
    return SAMPLERS[name].learns_from_slopes


def make_sampler(
    config: Config, space: Space, first: list[Trial], prices: Prices | None
) -> Sampler:
    """Return the sampler that ``config.search`` describes.

    ``first`` are trials to propose first, and ``prices`` the prices of the network.
    """
    name = sampler_name(config, space)
    compared = config.grid or config.baseline or config.space.network is not None
    if name == GRID and not compared and space.split is None and not space.n_unit:
        raise DimsweepError(
            "the space is empty",
            where="space",
            hint="give space.bandwidth a total, cost or max, or give space.parameters, a grid, or "
            "a baseline to compare with",
            code="missing",
        )
    if name not in SAMPLERS:
        raise DimsweepError(
            f"unknown sampler {name!r}",
            where="search.sampler",
            hint=suggest_names(name, [AUTO, *SAMPLERS]),
            code="unknown-name",
        )
    return SAMPLERS[name](_task(config, space, first, prices))


def _task(config: Config, space: Space, first: list[Trial], prices: Prices | None) -> Task:
    return Task(
        sampler_name(config, space),
        config.search,
        space,
        config.objective,
        first,
        prices,
        by_message=config.by_message,
    )
