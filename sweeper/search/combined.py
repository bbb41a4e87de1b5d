"""The default search: the descent and TPE in turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine import Prices
from sweeper.ledger.rows import OBJECTIVES
from sweeper.search.descent import DescentSearch
from sweeper.search.optuna_search import OptunaSearch
from sweeper.search.search import Slopes, Values
from sweeper.space.space import Point, Space

_TRIES = 10  # to propose a design that was not asked for before


class CombinedSearch:
    """A descent in the splits and TPE in everything, each told what the other found.

    After a new best point the descent goes on from there, alone: slopes say where to.  When that
    gains nothing the two take turns.  On a smooth time the descent has converged by then, and TPE
    looks elsewhere; where each split has another order of events, TPE learns what slopes do not
    tell.  The descent leaves the other keys as the best point has them.
    """

    waves_ahead = 1

    def __init__(
        self,
        config: Mapping[str, Any],
        space: Space,
        first: list[Point],
        objective: Sequence[str],
        prices: Prices | None,
    ) -> None:
        directions = [OBJECTIVES[name] for name in objective]
        self._sign = 1 if directions[0] == "minimize" else -1
        self._sampler = OptunaSearch({**config, "sampler": "tpe"}, space, [], directions)
        splits = Space(space.split, {})
        self._new_descent = partial(
            DescentSearch, {**config, "options": {}}, splits, [], objective, prices
        )
        self._descent = self._new_descent()
        self._waiting, self._asked = list(first), 0
        self._told: list[tuple[Point, Values, Slopes]] = []
        self._designs: set[str] = set()
        self._best: tuple[float, Point] | None = None
        self._gains = self._descends = True

    def ask(self, n: int) -> list[Point]:
        """Up to ``n`` points, but one while the descent gains."""
        points, self._waiting = self._waiting[:n], self._waiting[n:]
        if not points:
            points = [self._propose(self._asked + i) for i in range(1 if self._gains else n)]
        self._designs.update(map(_design, points))
        self._asked += len(points)
        return points

    def tell(
        self, points: Sequence[Point], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        news = list(zip(points, values, slopes, strict=True))
        before = self._best
        for point, value, _ in news:
            if value is not None and self._beats(value[0]):
                self._best = value[0], point
        self._told += news
        self._sampler.tell(points, values, slopes)
        self._gains = self._best is not before
        if self._best is None:
            return
        parameters = self._best[1].parameters
        if before is not None and before[1].parameters != parameters:
            self._descent, news = self._new_descent(), self._told
        self._descends = self._descends or self._gains
        for point, value, slope in news:
            if point.parameters == parameters:
                self._descent.tell([point], [value], [slope])

    def _beats(self, value: float) -> bool:
        return self._best is None or self._sign * value < self._sign * self._best[0]

    def _propose(self, number: int) -> Point:
        for _ in range(_TRIES):
            point = self._next(number)
            if _design(point) not in self._designs:
                break
        self._designs.add(_design(point))
        self._descends = not self._descends
        return point

    def _next(self, number: int) -> Point:
        if self._best is None or not self._descends:
            return self._sampler.propose(number)
        return replace(self._descent.propose(number), parameters=self._best[1].parameters)


def _design(point: Point) -> str:
    return json.dumps([point.bandwidth, point.parameters], sort_keys=True)
