"""The baseline of a study: today's design, simulated once in each combination of scenario values.

A baseline is composed like a cell of the grid: first the scenarios' values, then the keys of
``baseline``. It is not searched, and no budget of the space limits it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.overrides import is_group
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.record import PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import BASELINE
from dimsweep.sweeper.places import find_study
from dimsweep.sweeper.questions.networks.shapes import shared_keys
from dimsweep.sweeper.questions.split.grid import Grid
from dimsweep.sweeper.run.loop import Question, Search, SingleRound, SweepDriver, Work
from dimsweep.sweeper.space.trials import Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan, CellSource, PlannedCell, plan_cell, record_cell

# Parts of a configuration that describe a search.
_SEARCH_PARTS = ("space", "recheck", "portfolio")


class Baselines(CellSource):
    """The baseline of a study, once per combination of scenario values, in the grid's order."""

    def __init__(
        self,
        composed: ComposedConfig,
        axes: Mapping[str, tuple[Any, ...]],
        roles: Mapping[str, Role],
        first: int,
    ) -> None:
        """Take the grid's ``axes`` with their ``roles``, and the number of the ``first`` baseline.

        Raises :class:`DimsweepError` if the baseline sets a scenario's key: it is simulated for
        each value of the scenario.
        """
        given, networks = composed.config.baseline, composed.config.space.network
        scenarios = {axis: axes[axis] for axis in axes if roles[axis] is Role.SCENARIO}
        for name in given:
            if name in scenarios:
                raise DimsweepError(
                    f"{name} is a scenario: the baseline is simulated in each of them",
                    where=f"baseline.{name}",
                    hint=f"leave it out, or give roles: {{{name}: decision}}",
                    code="conflict",
                )
        self.composed, self.axes, self._given = composed, axes, dict(given)
        own = {name: (value,) for name, value in given.items()}
        if networks is not None and given and "topology" not in given:
            # Latencies and tiers are taken from the searched networks.
            own = {key: (value,) for key, value in shared_keys(networks).items()} | own
        self._grid = Grid(composed, {**scenarios, **own}, may_prune=False)
        self._scenarios = tuple(scenarios)
        self._first = first

    def __len__(self) -> int:
        return len(self._grid) if self._given else 0

    def corners(self, most: int) -> list[int]:
        """Return numbers of baselines (up to ``most``) that together cover all scenario values."""
        return self._grid.corners(most) if self._given else []

    def number(self, place: int) -> int:
        """Return the ledger number of the baseline at index ``place``.

        Numbers follow the grid's cells.
        """
        return self._first + place

    @property
    def warnings(self) -> list[str]:
        """Warnings about keys of the study that override an option chosen by the baseline.

        As on the command line, a study's keys are applied after the options of its groups.
        """
        file = self.composed.study and find_study(self.composed.study)
        nodes = [read_options(file).node] if file else []
        found = []
        for group, option in self._given.items():
            if not is_group(group) or isinstance(option, Mapping):
                continue
            own = [f"{group}.{key}" for node in nodes for key in node.get(group) or ()]
            own += [key for key in self.composed.overridden if key.startswith(f"{group}.")]
            kept = [key for key in dict.fromkeys(own) if key not in self._given]
            if kept:
                found.append(
                    f"baseline: {group}={option} has the study's own {', '.join(kept)}; the "
                    "baseline's own keys would come last"
                )
        return found

    def plan(self, place: int) -> PlannedCell | PrunedCell:
        """Return the plan of the baseline at index ``place``, or the reason why it is infeasible.

        Raises :class:`DimsweepError` for an invalid key.
        """
        scenario = dict.fromkeys(self.axes, BASELINE)
        try:
            labels, composed = self._grid.compose(place)
            scenario |= {axis: labels[axis] for axis in self._scenarios}
            return self._plan_cell(place, scenario, composed)
        except InfeasibleError as error:
            return PrunedCell(coordinates=scenario, error=str(error), baseline=self._given)
        except DimsweepError as error:
            raise error.in_place("baseline") from error.__cause__

    def _plan_cell(
        self, place: int, scenario: dict[str, str], composed: ComposedConfig
    ) -> PlannedCell:
        searched = list(composed.config.space.parameters)
        fixed = composed.config.with_values({name: {} for name in _SEARCH_PARTS})
        plan, program = plan_cell(self.number(place), scenario, replace(composed, config=fixed), ())
        # Rows have a column for each searched key; here is what the baseline has there.
        own = {name: text for name in searched if (text := _format_key(fixed, name)) is not None}
        cell = replace(plan.cell, coordinates={**scenario, **own})
        plan = replace(plan, cell=cell, first=[Trial(0, BASELINE, None)], warnings=[])
        (key,) = plan.content.keys(Trials.from_list(plan.first))
        record = record_cell(plan, program, self.composed.config)
        parts = {name: fixed.text[name] for name in _SEARCH_PARTS}
        own_config = {**(record.config or {}), **parts}
        record = record.model_copy(
            update={"config": own_config, "baseline": self._given, "key": key}
        )
        return PlannedCell(plan, record, program)


class BaselineQuestion(Question):
    """The question of how today's design performs in each combination of scenario values.

    ``planned``: all baselines, or None if they are planned one after the other.
    """

    def __init__(self, source: Baselines, planned: Sequence[CellPlan] | None) -> None:
        self._source, self._planned = source, planned

    def __iter__(self) -> Iterator[CellPlan]:
        """Iterate over the plans of the feasible baselines."""
        if self._planned is not None:
            yield from self._planned
            return
        found = map(self._source.plan, range(len(self._source)))
        yield from (each.plan for each in found if not isinstance(each, PrunedCell))

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        cells = self._stream(driver) if self._planned is None else self._planned
        for cell in cells:
            yield SingleRound([Work(cell, Trials.from_list(cell.first), is_own=False)])

    def _stream(self, driver: SweepDriver) -> Iterator[CellPlan]:
        for place in range(len(self._source)):
            found = self._source.plan(place)
            if isinstance(found, PrunedCell):
                driver.ledger.add_pruned(self._source.number(place), found)
            else:
                driver.ledger.add_cell(found.record)
                yield found.plan


def _format_key(config: Config, name: str) -> str | None:
    """Return a key's value as text for a row of results; None if the baseline lacks the key."""
    try:
        return str(config.value(name))
    except DimsweepError:
        return None
