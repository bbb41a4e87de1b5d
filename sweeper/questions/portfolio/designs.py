"""The networks of a study that are for several workloads, and each workload's plans on them."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.engine.bound import Weighing
from dimsweep.sweeper.config.compose import Composed, compose
from dimsweep.sweeper.config.overrides import choice_of
from dimsweep.sweeper.ledger.record import WORKLOAD, PrunedCell
from dimsweep.sweeper.questions.networks.designs import Designs, Part, check_designs, no_cell
from dimsweep.sweeper.questions.networks.shapes import shapes_of
from dimsweep.sweeper.space.refusals import Refusals
from dimsweep.sweeper.study.cell import PlannedCell


class SharedDesigns:
    """The designs of each workload of a portfolio, on networks that all of them share.

    The cells are numbered workload by workload.  ``refused`` counts infeasible networks by reason.
    Raises :class:`DimsweepError` for a study that cannot be searched by bounds.
    """

    always_streams = True

    def __init__(self, composed: Composed, weighing: Weighing) -> None:
        self.composed, self.weighing, config = composed, weighing, composed.config
        self.refused = Refusals()
        with composed.blaming():
            check_designs(config)
            assert config.space.network is not None
            shapes = shapes_of(config, config.space.network, self.refused)
        found, first = list[Designs](), 0
        for name in config.portfolio.workloads:
            part = Part(config, {WORKLOAD: name}, first, shapes)
            found.append(_of_workload(composed, name, part))
            first += len(found[-1])
        self.designs: Sequence[Designs] = found

    def __len__(self) -> int:
        return sum(map(len, self.designs))

    @cached_property
    def n_networks(self) -> int:
        """How many networks there are."""
        return sum(len(shape.cost) for shape in self.designs[0].part.shapes)

    @property
    def axes(self) -> dict[str, tuple[object, ...]]:
        """The keys in which cells differ."""
        return {key: () for each in self.designs for key in each.axes}

    def corners(self, most: int) -> list[int]:
        """Cells of each workload that promise most."""
        return [each.part.first + n for each in self.designs for n in each.corners(most)]

    def one_of_each(self) -> Iterator[int]:
        """Yield the most promising cell of each plan of each workload."""
        for each in self.designs:
            yield from (each.part.first + number for number in each.one_of_each())

    def no_cell(self, pruned: Sequence[PrunedCell]) -> InfeasibleError:
        """Return the error of a space in which no cell that was planned is feasible."""
        return no_cell(pruned)

    def check_size(self) -> None:
        """Accept the size, which was checked when the space was built."""

    def compose(self, number: int) -> tuple[dict[str, str], Composed]:
        """A cell's coordinates, and its configuration."""
        own, number = self._own(number)
        return own.compose(number)

    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """The plan of a cell, or why it cannot be."""
        own, number = self._own(number)
        return own.plan(number)

    def _own(self, number: int) -> tuple[Designs, int]:
        own = [each for each in self.designs if each.part.first <= number][-1]
        return own, number - own.part.first


def _of_workload(composed: Composed, name: str, part: Part) -> Designs:
    """The designs of one workload of a study."""
    kept = [word.text for word in composed.words if word.key != WORKLOAD]
    chosen = choice_of(WORKLOAD, name)
    try:
        own = compose([*kept, chosen], {}, may_sweep=True)
    except DimsweepError as error:
        if error.where == chosen:  # there is no such option
            where = f"portfolio.workloads.{name}"
            raise composed.blame(DimsweepError(error.what, where=where, hint=error.hint)) from None
        raise
    try:
        return Designs(own, part=part)
    except DimsweepError as error:
        named = type(error)(f"{name}: {error.what}", where=error.where, hint=error.hint)
        raise own.blame(named) from error.__cause__
