"""What a search is, and which one a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from engine import DimsweepError
from sweeper.space import Point, Space

# A point's objective values in the study's order, or None if it failed.
Values = Sequence[float] | None


class Search(Protocol):
    """Proposes points, and perhaps learns from their values.

    The driver asks for a wave while the one before it is being simulated, and tells each wave in
    the order of its points, so what is proposed depends on the seed and on nothing else.
    """

    def ask(self, n: int) -> list[Point]:
        """The next ``n`` points."""

    def tell(self, points: Sequence[Point], values: Sequence[Values]) -> None:
        """The values of points asked for earlier."""


def make_search(
    config: Mapping[str, Any], space: Space, first: list[Point], directions: Sequence[str]
) -> Search:
    """The search that ``config["search"]`` describes; ``first`` are points to propose first.

    ``directions`` holds "minimize" or "maximize" for each objective.
    """
    from sweeper.search.blocks import BlockSearch
    from sweeper.search.optuna_search import OptunaSearch

    search = config["search"]
    if space.n_unit == 0:
        raise DimsweepError(
            "there is nothing to search",
            where="space",
            hint="give space.bandwidth a total or a max, or space.parameters something",
        )
    if search["wave"] < 1:
        raise DimsweepError(f"{search['wave']}; a wave has 1 point or more", where="search.wave")
    if search["sampler"] in ("random", "qmc"):
        return BlockSearch(search, space, first)
    return OptunaSearch(search, space, first, directions)
