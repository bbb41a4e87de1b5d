"""Which search a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import DimsweepError
from sweeper.search.blocks import BlockSearch
from sweeper.search.optuna_search import OptunaSearch
from sweeper.search.search import Search
from sweeper.space import Point, Space


class _Given:
    """No search: the one design of each cell of a grid."""

    def __init__(self, points: list[Point]) -> None:
        self._points = points

    def ask(self, n: int) -> list[Point]:
        points, self._points = self._points[:n], self._points[n:]
        return points

    def tell(self, points: Sequence[Point], values: Sequence[object]) -> None:
        """Nothing to learn."""


def make_search(
    config: Mapping[str, Any], space: Space, first: list[Point], directions: Sequence[str]
) -> Search:
    """The search that ``config["search"]`` describes; ``first`` are points to propose first.

    ``directions`` holds "minimize" or "maximize" for each objective.
    """
    search = config["search"]
    if space.n_unit == 0:
        if config["grid"]:
            return _Given(first)
        raise DimsweepError(
            "there is nothing to search",
            where="space",
            hint="give space.bandwidth a total or a max, space.parameters something, or a grid",
        )
    if search["wave"] < 1:
        raise DimsweepError(f"{search['wave']}; a wave has 1 point or more", where="search.wave")
    if search["sampler"] in ("random", "qmc"):
        return BlockSearch(search, space, first)
    return OptunaSearch(search, space, first, directions)
