"""Simulate what-ifs, single changes of the best designs, after the search has ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import DEFAULT
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import BANDWIDTH, BASELINE, CHANGE, COMPLETE, WHAT_IF
from dimsweep.sweeper.questions.what_if.catalogue import DesignToChange
from dimsweep.sweeper.questions.what_if.change import NoChangeError, check_keys, resolve
from dimsweep.sweeper.run.loop import AnswerQuestion, Question, Results, Search, SweepDriver, Work
from dimsweep.sweeper.space.trials import MARK, Setting, Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan
from dimsweep.sweeper.study.restore import BANDWIDTHS, apply_trial, load_trials, parse_split

_MAX_SCENARIOS = 8  # scenarios whose best designs are changed if the study names no changes


@dataclass(frozen=True)
class Reference:
    """A design to change: its trial, and the key of its row of results."""

    plan: CellPlan
    trial: Trial
    key: str

    @cached_property
    def config(self) -> Config:
        """The cell's configuration with the trial's settings and split."""
        return apply_trial(self.plan.config, self.trial)

    def changes(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the changes that the study names, or the catalogue's changes."""
        wanted = self.plan.config.what_if
        if not isinstance(wanted, str):
            yield from wanted.items()
            return
        yield from DesignToChange(self.config, self.plan.space).changes()

    def trials(self) -> Iterator[Trial]:
        """Yield a trial for each change that the study names, or for the catalogue's changes.

        A named change is tried even if it changes nothing. Of the catalogue's changes that lead to
        equal designs, only the first is tried.
        """
        first = self.plan.budget + sum(top for _, top in self.plan.config.recheck.rungs)
        config, seen = self.config, set[Setting]()
        is_named = not isinstance(self.plan.config.what_if, str)
        for i, (name, changes) in enumerate(self.changes()):
            try:
                setting = Setting(resolve(config, changes))
            except NoChangeError:
                setting = Setting({})
            except DimsweepError:  # the change fits other designs, not this one
                continue
            if is_named or (setting and setting not in seen):
                seen.add(setting)
                yield self._build_trial(first + i, name, setting)

    def _build_trial(self, number: int, name: str, setting: Setting) -> Trial:
        own, split = dict(setting), self.trial.bandwidth
        if split is not None and BANDWIDTHS in own:
            split = parse_split(own.pop(BANDWIDTHS))
        mark = dict(zip(CHANGE, (name, self.key, setting.text), strict=True))
        own = {**self.trial.parameters, **own, MARK: mark}
        return Trial(number, WHAT_IF, split, Setting(own))


class WhatIfSearch:
    """A search of one round: all changes of some designs that the ledger has no results of."""

    def __init__(self, references: Sequence[Reference], driver: SweepDriver) -> None:
        self._work = self._changes(references, driver)

    def lookahead(self, n_workers: int) -> float:
        return float("inf")

    def ask(self) -> Sequence[Work]:
        work = next(self._work, None)
        return () if work is None else [work]

    def tell(self, results: Sequence[Results]) -> None: ...

    def _changes(self, references: Sequence[Reference], driver: SweepDriver) -> Iterator[Work]:
        for reference in references:
            cell, changed = reference.plan, list(reference.trials())
            if not changed:
                continue
            plain = [Trial(0, "", each.bandwidth, each.parameters.keys_only) for each in changed]
            trials, known = Trials.from_list(changed), cell.content.keys(Trials.from_list(plain))
            driver.ledger.copy(cell.cell, trials, cell.content.keys(trials), known)
            for each in changed:
                yield Work(cell, Trials.from_list([each]), is_counted=False)


class WhatIfQuestion(Question):
    """The question of the effect of single changes of the best designs and of the baseline."""

    def __init__(
        self,
        config: Config,
        schema: pa.Schema,
        answered: AnswerQuestion,
        baselines: Iterable[CellPlan],
    ) -> None:
        self._config, self._schema = config, schema
        self._answered, self._baselines = answered, baselines

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        if not self._config.what_if:
            return
        before = len(driver.ledger.index)
        yield WhatIfSearch(list(self._references(study, driver)), driver)
        driver.progress.what_ifs = len(driver.ledger.index) - before

    def _references(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Reference]:
        """Yield the designs to change: the best designs, and the baseline if there is one."""
        columns = [
            *("key", "cell", "trial", "origin", "state", *CHANGE, "fidelity"),
            *BANDWIDTH.among(self._schema.names),
            *(objective.column for objective in study.objectives),
            *(*study.grid, *study.parameters),
        ]
        rows = driver.ledger.rows(list(dict.fromkeys(columns)))
        rows = rows.filter(pc.equal(rows["state"], COMPLETE))
        chosen = self._answered.select_answers(rows, study)
        by_default = self._config.what_if == DEFAULT
        if by_default:
            chosen = chosen.slice(0, _MAX_SCENARIOS)
        scenarios = []
        for i in range(len(chosen)):
            cell = self._answered.plan_cell(chosen["cell"][i].as_py())
            if cell is None or (by_default and cell.config.by_message):
                continue
            scenarios.append(study.scenario(cell.cell.coordinates))
            (trial,) = load_trials(cell.config, chosen.slice(i, 1))
            yield Reference(cell, trial, chosen["key"][i].as_py())
        done = set(rows.filter(pc.equal(rows["origin"], BASELINE))["key"].to_pylist())
        for baseline in self._baselines:
            (key,) = baseline.content.keys(Trials.from_list(baseline.first))
            if key in done and study.scenario(baseline.cell.coordinates) in scenarios:
                yield Reference(baseline, baseline.first[0], key)


def check_changes(config: Config, cells: Sequence[CellPlan]) -> None:
    """Raise :class:`DimsweepError` for a change that no design of the ``cells`` can have."""
    if isinstance(config.what_if, str) or not config.what_if:
        return
    for name, changes in config.what_if.items():
        errors = list[DimsweepError]()
        for cell in cells:
            try:
                check_keys(cell.config, changes)
                break
            except DimsweepError as error:
                errors.append(error)
        if len(errors) == len(cells):
            raise errors[0].with_prefix(f"what_if.{name}")
