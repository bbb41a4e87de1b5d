"""Which search a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import DimsweepError, Fidelity, Prices
from sweeper.objective import Objective, follows_slopes
from sweeper.search.blocks import BlockSampler
from sweeper.search.combined import CombinedSampler
from sweeper.search.descent import DescentSampler
from sweeper.search.optuna_sampler import OptunaSampler
from sweeper.search.sampler import Sampler
from sweeper.space.space import Space, Trial

_COMBINED = "descent+tpe"  # what "auto" is where it can
LEARN_FROM_SLOPES = ("descent", _COMBINED)  # samplers that are told them


class _Given:
    """No search: the one design of each cell of a grid, or of a space with one split."""

    prefetch = 1

    def __init__(self, trials: list[Trial]) -> None:
        self._trials = trials

    def ask(self, n: int) -> list[Trial]:
        trials, self._trials = self._trials[:n], self._trials[n:]
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""


def sampler_name(config: Mapping[str, Any], space: Space, objective: Sequence[Objective]) -> str:
    """The sampler that a config asks for.  ``auto`` is the descent with TPE where splits have
    slopes in the objective, and TPE alone elsewhere."""
    sampler = str(config["search"]["sampler"])
    if sampler != "auto":
        return sampler
    has_slopes = (
        space.split is not None
        and follows_slopes(objective)
        and config["fidelity"] == Fidelity.PHASE
        and "fidelity" not in space.parameters
    )
    return _COMBINED if has_slopes else "tpe"


def make_sampler(
    config: Mapping[str, Any],
    space: Space,
    first: list[Trial],
    objective: Sequence[Objective],
    prices: Prices | None,
) -> Sampler:
    """The search that ``config["search"]`` describes; ``first`` are trials to propose first.

    ``objective`` names what is searched for, and ``prices`` what the network costs.
    """
    search = config["search"]
    if space.n_unit == 0:
        if config["grid"] or space.split is not None:
            return _Given(first)
        raise DimsweepError(
            "there is nothing to search",
            where="space",
            hint="give space.bandwidth a total, cost or max, space.parameters something, or a grid",
        )
    if search["batch"] < 1:
        raise DimsweepError(f"{search['batch']}; a batch has 1 trial or more", where="search.batch")
    sampler = sampler_name(config, space, objective)
    search = {**search, "sampler": sampler}
    if sampler in ("random", "qmc"):
        return BlockSampler(search, space, first)
    if sampler == _COMBINED:
        return CombinedSampler(search, space, first, objective, prices)
    if sampler == "descent":
        if config["fidelity"] != Fidelity.PHASE:
            raise DimsweepError(
                "the descent needs critical paths, which only fidelity=phase knows",
                where="search.sampler",
            )
        return DescentSampler(search, space, first, objective, prices)
    return OptunaSampler(search, space, first, objective)
