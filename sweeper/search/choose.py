"""Which search a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import DimsweepError, Fidelity, Prices
from sweeper.ledger.rows import OBJECTIVES
from sweeper.search.blocks import BlockSearch
from sweeper.search.combined import CombinedSearch
from sweeper.search.descent import DescentSearch
from sweeper.search.optuna_search import OptunaSearch
from sweeper.search.search import Search
from sweeper.space.space import Point, Space

_COMBINED = "descent+tpe"  # what "auto" is where it can
LEARN_FROM_SLOPES = ("descent", _COMBINED)  # samplers that are told them


class _Given:
    """No search: the one design of each cell of a grid, or of a space with one split."""

    waves_ahead = 1

    def __init__(self, points: list[Point]) -> None:
        self._points = points

    def ask(self, n: int) -> list[Point]:
        points, self._points = self._points[:n], self._points[n:]
        return points

    def tell(
        self, points: Sequence[Point], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""


def sampler_of(config: Mapping[str, Any], space: Space, objective: Sequence[str]) -> str:
    """The sampler that a config asks for.  ``auto`` is the descent with TPE where splits have
    slopes in the objective, and TPE alone elsewhere."""
    sampler = str(config["search"]["sampler"])
    if sampler != "auto":
        return sampler
    has_slopes = (
        space.split is not None
        and list(objective) in (["time"], ["perf_per_cost"])
        and config["fidelity"] == Fidelity.PHASE
        and "fidelity" not in space.parameters
    )
    return _COMBINED if has_slopes else "tpe"


def make_search(
    config: Mapping[str, Any],
    space: Space,
    first: list[Point],
    objective: Sequence[str],
    prices: Prices | None,
) -> Search:
    """The search that ``config["search"]`` describes; ``first`` are points to propose first.

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
    if search["wave"] < 1:
        raise DimsweepError(f"{search['wave']}; a wave has 1 point or more", where="search.wave")
    sampler = sampler_of(config, space, objective)
    search = {**search, "sampler": sampler}
    if sampler in ("random", "qmc"):
        return BlockSearch(search, space, first)
    if sampler == _COMBINED:
        return CombinedSearch(search, space, first, objective, prices)
    if sampler == "descent":
        if config["fidelity"] != Fidelity.PHASE:
            raise DimsweepError(
                "the descent needs critical paths, which only fidelity=phase knows",
                where="search.sampler",
            )
        return DescentSearch(search, space, first, objective, prices)
    return OptunaSearch(search, space, first, [OBJECTIVES[name] for name in objective])
