"""How large and how long steps were, and one formula for as many of them as share it."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from dimsweep.engine.extensions.synthesis.formula import Formula, Keys, fit
from dimsweep.engine.extensions.synthesis.grammar import Pattern, Place, leaf
from dimsweep.engine.extensions.synthesis.job import Job, Symbol

_WORSE = 1.5  # times the residuals of separate formulas, up to which a common one is taken
_EXACT = 0.002  # a residual that is as good as none


class Samples:
    """Quantities of steps, by the place in their part.

    The same step of other roles and cases mostly follows the same formula: the more jobs it is
    fitted to, the surer it is.  So a common formula is taken where it is about as good: of all
    steps of one kind and name, else of those in one case, else of each place.
    """

    def __init__(self) -> None:
        self._means: dict[tuple[str, Place, str], list[tuple[float, Keys]]] = defaultdict(list)
        self._spreads: dict[tuple[str, Place, str], list[float]] = defaultdict(list)
        self._levels: dict[tuple[str, Place, str], tuple[Hashable, Hashable]] = {}
        self._common: dict[Hashable, list[tuple[str, Place, str]]] = defaultdict(list)
        self._fits: dict[Hashable, tuple[Formula, float]] = {}

    def add(
        self, job: Job, stage: int, places: Sequence[Place], part: str, case: str, pattern: Pattern
    ) -> None:
        """Note the means of one stage's steps, and how they scatter around them."""
        values: dict[tuple[str, Place, str], list[float]] = defaultdict(list)
        for place, step in zip(places, job.stages[stage], strict=True):
            for name, value in step.values.items():
                values[part, place, name].append(value)
        for key, each in values.items():
            self._means[key].append((float(np.mean(each)), job.keys))
            if min(each) > 0:
                self._spreads[key].append(float(np.var(np.log(each))))
            if key not in self._levels:
                symbol = Symbol.of(leaf(pattern, key[1]))
                alike = symbol.kind, symbol.name, symbol.over, key[2]
                self._levels[key] = alike, (*alike, case)
                for level in self._levels[key]:
                    self._common[level].append(key)

    def formulas(self, part: str) -> dict[Place, dict[str, Formula]]:
        """Those of a part, by place and quantity."""
        found: dict[Place, dict[str, Formula]] = defaultdict(dict)
        for key in self._means:
            if key[0] == part:
                found[key[1]][key[2]] = self._formula(key)
        return dict(found)

    def _formula(self, key: tuple[str, Place, str]) -> Formula:
        spread = float(np.sqrt(np.mean(self._spreads[key] or [0.0])))
        own, least = self._fit(key, [key])
        chosen = own
        for level in reversed(self._levels[key]):
            formula, residual = self._fit(level, self._common[level])
            if residual <= max(_WORSE * least, _EXACT):
                chosen = formula
        return Formula(chosen.terms, spread if spread > 1e-6 else 0.0)

    def _fit(
        self, level: Hashable, members: Sequence[tuple[str, Place, str]]
    ) -> tuple[Formula, float]:
        """A formula for all ``members``, and its relative residual (root mean square)."""
        if level not in self._fits:
            pairs = [pair for member in members for pair in self._means[member]]
            means, keys = zip(*pairs, strict=True)
            formula = fit(means, keys)
            y = np.array(means)
            off = np.array([formula.at(each) for each in keys]) - y
            residual = np.sqrt(np.mean((off / np.maximum(y, 1e-12)) ** 2)) if y.any() else 0.0
            self._fits[level] = formula, float(residual)
        return self._fits[level]
