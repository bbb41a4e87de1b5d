"""Sensitivity of the best design: the prices, bandwidths, latencies or sizes at which it loses.

The bounds that excluded the cells and a few simulations show how far a quantity, or the error of
the model, may change before another cell wins. A lower bound on a cell's seconds gives the smallest
change at which it could beat the best design, or a lower bound on its loss after a change.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dimsweep.sweeper.calibrate.evidence import (
    compute_confidence,
    compute_confidence_on_measured_network,
)
from dimsweep.sweeper.ledger.record import Change, End, PrunedCell, Regions, Rival
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.placements import Longs
from dimsweep.sweeper.questions.networks.race import (
    REACH,
    ROUNDING,
    KnownCells,
    Move,
    MovedSpace,
    Race,
    ScaledRace,
    iterate_moves,
)
from dimsweep.sweeper.questions.networks.shapes import Floats
from dimsweep.sweeper.questions.what_if.catalogue import DesignToChange
from dimsweep.sweeper.questions.what_if.change import resolve
from dimsweep.sweeper.space.plans import PlanRow
from dimsweep.sweeper.study.ranking import NEAR, merge_identical_blocks

# Regions: the winner for each pair of a price and another quantity. Each value of the other
# quantity needs a search. Its bounds and times serve all prices, which only change the loss per
# second.

_NEVER = 2
_PRICES, _MOVES = 3, 2  # steps on either side, from 1 to the reach


class _PricedRace(ScaledRace):
    """A race repeated at several prices.

    ``factors``: for each price the loss per second of all networks (networks,). ``ends``: for each
    price the loss of the best cell, which a winner must be below.
    """

    def __init__(
        self, known: KnownCells, space: MovedSpace, factors: Sequence[Floats], ends: Sequence[float]
    ) -> None:
        super().__init__(known, space, max(ends))
        self._factors, self._ends, self._number = factors, ends, 0

    def winner(self, number: int) -> int | None:
        """Return the cell with the least loss at price ``number`` of the list.

        Return None if no cell beats the best one, and -1 if the race stopped before a winner was
        certain.
        """
        self._number = number
        found = self.find_first(self._ends[number])
        return -1 if found.is_open else found.number

    def _factor(self, i: int) -> Floats:
        return self._factors_at(i, self._number)

    def _factors_at(self, i: int, number: int) -> Floats:
        cells = self._known.designs.cells
        return cells.places.select_networks(self._factors[number], cells.candidates(cells.rows[i]))

    def _find_below(self, i: int, floor: Floats) -> Longs:
        some = [floor * self._factors_at(i, n) < end for n, end in enumerate(self._ends)]
        return np.flatnonzero(np.any(some, axis=0))


def find_regions(
    known: KnownCells,
    prices: Sequence[tuple[str, Floats]],
    moves: Sequence[Move],
    changes: Sequence[Change],
) -> Regions | None:
    """Return the best design at each pair of values of a price and of another quantity.

    The price and the quantity are those to which the answer is most sensitive. Return None without
    a price or without a quantity, or if the answer never loses.
    """
    near = {change.name: _nearest_end(change) for change in changes}
    if not prices or not moves or min(near.values())[0] == _NEVER:
        return None
    price, slopes = min(prices, key=lambda each: near[each[0]])
    move = min(moves, key=lambda each: near[each.name])
    xs = [float(REACH ** (n / _PRICES)) for n in range(-_PRICES, _PRICES + 1)]
    ys = [move.round_factor(float(REACH ** (n / _MOVES))) for n in range(-_MOVES, _MOVES + 1)]
    designs = {tuple(known.designs.compose(known.best)[0].items()): 0}
    rows = list[tuple[int, ...]]()
    for y in (ys := [*dict.fromkeys(ys)]):
        space = move.apply(y)
        factors = [known.designs.factors_at_price(slopes, x) for x in xs]
        seconds = space.best_loss / known.factor
        ends = [seconds * known.best_cell_factor(each) * (1 - ROUNDING) for each in factors]
        if space.known is None:
            rows.append((0,) * len(xs))
            continue
        race, row = _PricedRace(space.known, space, factors, ends), list[int]()
        for number in range(len(xs)):
            winner = race.winner(number)
            if winner is None or winner < 0:
                row.append(0 if winner is None else -1)
                continue
            named = tuple(space.known.designs.compose(winner)[0].items())
            row.append(designs.setdefault(named, len(designs)))
        rows.append(tuple(row))
    return Regions(
        x=price,
        y=move.name,
        xs=tuple(xs),
        ys=tuple(ys),
        designs=tuple(map(dict, designs)),
        winners=tuple(rows),
    )


def _nearest_end(change: Change) -> tuple[int, float]:
    """Return a sorting key of a change: how clearly the answer loses, then the change's size.

    First are changes after which another design is better by more than 1 %, then changes after
    which another design is better at all, then the others. The second number is the absolute
    logarithm of the factor.
    """
    for order, ends in enumerate(((change.near_down, change.near_up), (change.down, change.up))):
        found = [abs(float(np.log(end.factor))) for end in ends if not end.is_far]
        if found:
            return order, min(found)
    return _NEVER, np.inf


_TWICE = " x2"  # what the name of a what-if ends with


class Changes(NamedTuple):
    """The changes of prices and quantities after which the best design is no longer the best."""

    changes: tuple[Change, ...] = ()
    #: the next design, and the probability that measurements rank it behind the answer
    rival: Rival | None = None
    #: winners over two quantities
    regions: Regions | None = None


def find_changes(designs: Designs, best: int, losses: Mapping[int, float] | None = None) -> Changes:
    """Return the changes of prices and quantities after which another cell beats ``best``.

    ``losses`` has the losses of simulated cells, by the number of the cell.
    """
    known, prices = KnownCells(designs, best, losses), [*_iterate_prices(designs, best)]
    found = [
        Change(
            name=name,
            down=_find_price_end(known, slopes, -1, 0.0),
            up=_find_price_end(known, slopes, 1, 0.0),
            near_down=_find_price_end(known, slopes, -1, NEAR),
            near_up=_find_price_end(known, slopes, 1, NEAR),
        )
        for name, slopes in prices
    ]
    moves = [*iterate_moves(known)]
    found += [Change(name=move.name, **move.find_ends()) for move in moves]
    regions = find_regions(known, prices, moves, found)
    return Changes(tuple(found), _find_rival(known), regions)


def _iterate_prices(designs: Designs, best: int) -> Iterator[tuple[str, Floats]]:
    """Yield the name of each price that what-ifs double, with its effect on the loss factors.

    The effect is the increase of each network's loss per second when the price doubles. Prices of
    whole parts are left out, because they decide which parts form a fabric.
    """
    planned, config = designs.plan(best), designs.composed.config
    if isinstance(planned, PrunedCell) or config.cost.parts:
        return
    for name, changes in DesignToChange(planned.plan.config, planned.plan.space).changes():
        if all(key.startswith("cost.") for key in changes):
            slopes = designs.slopes(config.with_values(resolve(config, changes)))
            if slopes.any():
                yield name.removesuffix(_TWICE), slopes


class _PriceRace(Race):
    """A race for the smallest change of a price that makes a cell beat the best by ``margin``.

    ``sign`` is 1 for an increase and -1 for a decrease. ``slopes`` (networks,) is the increase of
    the loss per second when the price doubles.
    """

    def __init__(self, known: KnownCells, slopes: Floats, sign: int, margin: float) -> None:
        super().__init__(known)
        self._slopes, self._sign, self._share = slopes, sign, (1 + margin) * (1 + ROUNDING)
        slope = known.best_cell_factor(slopes)
        seconds = known.simulate_seconds(known.best)
        self._own = seconds * known.factor, seconds * slope

    def _factors_at(self, row: PlanRow) -> Floats:
        cells = self._known.designs.cells
        return cells.places.select_networks(self._slopes, cells.candidates(row))

    def key(self, i: int) -> tuple[float, int]:
        row, (loss, slope) = self._known.designs.cells.rows[i], self._own
        seconds = self._known.loads.seconds(i) * self._share
        # The distance behind the best cell, divided by its decrease per unit of change.
        with np.errstate(invalid="ignore", divide="ignore"):
            behind = seconds * self._known.designs.loss_factors(row) - loss
            less = self._sign * (slope - seconds * self._factors_at(row))
            where = np.where(behind <= 0, 0.0, np.where(less > 0, behind / less, np.inf))
        where = np.where(np.isfinite(seconds), where, np.inf)
        m = int(np.argmin(where))
        return float(where[m]), m

    def refine(self, i: int, m: int) -> bool:
        return self._known.refine(i, m)

    def is_exact(self, i: int, m: int) -> bool:
        return self._known.loads.is_exact(i, m)


def _find_price_end(known: KnownCells, slopes: Floats, sign: int, margin: float) -> End:
    reach = REACH - 1 if sign > 0 else 1 - 1 / REACH
    found = _PriceRace(known, slopes, sign, margin).find_first(reach)
    return known.build_end(1 + sign * found.key, found.number, is_open=found.is_open)


class _RivalRace(Race):
    """A race for the least loss of a cell outside ``excluded``, initially only the best cell."""

    def __init__(self, known: KnownCells) -> None:
        super().__init__(known)
        self.excluded = {known.best}

    def key(self, i: int) -> tuple[float, int]:
        known, cells = self._known, self._known.designs.cells
        first, end = cells.first[i : i + 2].tolist()
        loss = known.loads.seconds(i) * known.designs.loss_factors(cells.rows[i])
        loss[[number - first for number in self.excluded if first <= number < end]] = np.inf
        m = int(np.argmin(loss))
        return float(loss[m]), m

    def refine(self, i: int, m: int) -> bool:
        return self._known.refine(i, m)

    def is_exact(self, i: int, m: int) -> bool:
        return self._known.loads.is_exact(i, m)

    def simulated(self) -> dict[int, float]:
        """Return the losses of the simulated cells outside ``excluded``, by cell number."""
        known, cells = self._known, self._known.designs.cells
        found = dict(known.losses)
        for i, m, seconds in known.loads.simulated_times():
            factor = float(known.designs.loss_factors(cells.rows[i])[m])
            found[int(cells.first[i]) + m] = seconds * factor
        return {number: loss for number, loss in found.items() if number not in self.excluded}


def _is_twin(known: KnownCells, number: int) -> bool:
    """Return whether a cell is the best design again, with equal blocks under other names."""
    one, other = (known.designs.compose(each)[0] for each in (known.best, number))
    return merge_identical_blocks(one) == merge_identical_blocks(other) and known.simulate_seconds(
        number
    ) == known.simulate_seconds(known.best)


def _find_rival(known: KnownCells) -> Rival:
    """Return the second-best design, and the probability that measurements rank it second.

    The two designs share most of the model's error. If too many cells may be second, return the
    best simulated one of them, with a lower bound on the loss of the others.
    """
    own, race = known.simulate_seconds(known.best) * known.factor, _RivalRace(known)
    found = race.find_first(own * REACH)
    while found.number is not None and _is_twin(known, found.number):
        race.excluded.add(found.number)
        found = race.find_first(own * REACH)
    number, loss = found.number, found.key
    if found.is_open:
        simulated = race.simulated()
        simulated = {n: each for n, each in simulated.items() if not _is_twin(known, n)}
        number = min(simulated, key=simulated.__getitem__, default=None)
        loss = loss if number is None else simulated[number]
    rival = Rival(factor=loss / own, is_open=found.is_open, at_least=found.key / own)
    if number is None:
        return rival
    composed = [known.designs.compose(each) for each in (known.best, number)]
    both = [each.config for _, each in composed]
    sure = compute_confidence(np.log(rival.factor), *both)
    elsewhere = sure is None
    if elsewhere:
        sure = compute_confidence_on_measured_network(np.log(rival.factor), *both)
    by, _ = composed[1]
    return rival.model_copy(update={"by": by, "sure": sure, "elsewhere": elsewhere})
