"""What wins where two things are not what they were thought to be: a price, and a bandwidth, a
latency or the model's size.

Each of the other is a search of its own, whose cells' bounds and times serve all prices: these only
change what seconds are multiplied by.
"""

from collections.abc import Sequence

import numpy as np

from dimsweep.sweeper.ledger.record import Change, Regions
from dimsweep.sweeper.questions.networks.moves import Moment, Move, Scaled
from dimsweep.sweeper.questions.networks.places import Longs
from dimsweep.sweeper.questions.networks.race import REACH, ROUNDING, Known
from dimsweep.sweeper.questions.networks.shapes import Floats

_NEVER = 2
_PRICES, _OTHERS = 3, 2  # of each on either side, from as it is to the reach


class _Priced(Scaled):
    """The losses of cells below the ``ends`` of several prices, by which networks have their
    ``factors``; it is run at each one after the other."""

    def __init__(
        self, known: Known, moment: Moment, factors: Sequence[Floats], ends: Sequence[float]
    ) -> None:
        super().__init__(known, moment, max(ends))
        self._factors, self._ends, self._number = factors, ends, 0

    def winner(self, number: int) -> int | None:
        """The cell that wins at a price; None where no cell is below its end, and -1 where too many
        may be."""
        self._number = number
        found = self.first(self._ends[number])
        return -1 if found.is_open else found.number

    def _factor(self, i: int) -> Floats:
        return self._of(i, self._number)

    def _of(self, i: int, number: int) -> Floats:
        cells = self._known.designs.cells
        return cells.places.of_networks(self._factors[number], cells.spot(cells.rows[i]))

    def _below(self, i: int, floor: Floats) -> Longs:
        some = [floor * self._of(i, n) < end for n, end in enumerate(self._ends)]
        return np.flatnonzero(np.any(some, axis=0))


def regions_of(
    known: Known,
    prices: Sequence[tuple[str, Floats]],
    moves: Sequence[Move],
    changes: Sequence[Change],
) -> Regions | None:
    """What wins where of the prices and of the rest that one each moves which may move least; None
    where there are no two, or nothing else ever wins."""
    near = {change.name: _nearest(change) for change in changes}
    if not prices or not moves or min(near.values())[0] == _NEVER:
        return None
    price, slopes = min(prices, key=lambda each: near[each[0]])
    move = min(moves, key=lambda each: near[each.name])
    xs = [float(REACH ** (n / _PRICES)) for n in range(-_PRICES, _PRICES + 1)]
    ys = [move.whole(float(REACH ** (n / _OTHERS))) for n in range(-_OTHERS, _OTHERS + 1)]
    designs = {tuple(known.designs.compose(known.best)[0].items()): 0}
    rows = list[tuple[int, ...]]()
    for y in (ys := [*dict.fromkeys(ys)]):
        moment = move.at(y)
        factors = [known.designs.at_price(slopes, x) for x in xs]
        seconds = moment.own / known.factor
        ends = [seconds * known.own(each) * (1 - ROUNDING) for each in factors]
        if moment.known is None:
            rows.append((0,) * len(xs))
            continue
        race, row = _Priced(moment.known, moment, factors, ends), list[int]()
        for number in range(len(xs)):
            winner = race.winner(number)
            if winner is None or winner < 0:
                row.append(0 if winner is None else -1)
                continue
            named = tuple(moment.known.designs.compose(winner)[0].items())
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


def _nearest(change: Change) -> tuple[int, float]:
    """How soon another design is better by more than 1%, by how far something moves, in logarithms;
    after these what makes another one better at all, and at last what never does."""
    for order, ends in enumerate(((change.near_down, change.near_up), (change.down, change.up))):
        found = [abs(float(np.log(end.factor))) for end in ends if not end.is_far]
        if found:
            return order, min(found)
    return _NEVER, np.inf
