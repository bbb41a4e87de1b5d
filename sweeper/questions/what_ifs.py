"""Changes of the best designs, each alone, simulated when the search is over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import DEFAULT
from dimsweep.sweeper.ledger.record import PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import BASELINE, BESIDE, CHANGE, COMPLETE, PORTFOLIO, WHAT_IF
from dimsweep.sweeper.ledger.schema import BANDWIDTH
from dimsweep.sweeper.questions.plan import StudyPlan
from dimsweep.sweeper.questions.portfolio.portfolio import Together, common, row_of
from dimsweep.sweeper.questions.what_if.catalogue import Asked
from dimsweep.sweeper.questions.what_if.change import NoChangeError, resolve
from dimsweep.sweeper.run.driver import Driver
from dimsweep.sweeper.space.setting import MARK, Setting
from dimsweep.sweeper.space.trials import Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan
from dimsweep.sweeper.study.kept import BANDWIDTHS, designed, split_of, trials_of
from dimsweep.sweeper.study.ranking import best

_MOST = 8  # scenarios whose best designs are asked what the study itself does not ask


@dataclass(frozen=True)
class Reference:
    """A design that is changed: a row's trial and its key."""

    plan: CellPlan
    trial: Trial
    key: str

    @cached_property
    def config(self) -> Config:
        """The cell's configuration with what the trial sets, its split too."""
        return designed(self.plan.config, self.trial)

    def changes(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """What the study asks, or what can be asked of any design, by name."""
        wanted = self.plan.config.what_if
        if not isinstance(wanted, str):
            yield from wanted.items()
            return
        yield from Asked(self.config, self.plan.space).changes()

    def trials(self) -> Iterator[Trial]:
        """Return a trial for each change that the study names, also for one that leaves this design
        as it is; of changes that any design is asked, the first one for each new design."""
        first = self.plan.budget + sum(top for _, top in self.plan.config.recheck.rungs)
        config, seen = self.config, set[Setting]()
        is_named = not isinstance(self.plan.config.what_if, str)
        for i, (name, changes) in enumerate(self.changes()):
            try:
                setting = Setting(resolve(config, changes))
            except NoChangeError:
                setting = Setting({})
            except DimsweepError:  # it says nothing of this design, though it does of others
                continue
            if is_named or (setting and setting not in seen):
                seen.add(setting)
                yield self._changed(first + i, name, setting)

    def _changed(self, number: int, name: str, setting: Setting) -> Trial:
        own, split = dict(setting), self.trial.bandwidth
        if split is not None and BANDWIDTHS in own:
            split = split_of(own.pop(BANDWIDTHS))
        mark = dict(zip(CHANGE, (name, self.key, setting.text), strict=True))
        own = {**self.trial.parameters, **own, MARK: mark}
        return Trial(number, WHAT_IF, split, Setting(own))


def simulate_what_ifs(plan: StudyPlan, study: StudyRecord, driver: Driver) -> None:
    """Simulate each change of the study around the best design of each scenario, or around the one
    split of each portfolio, and around the baseline of its cell; nothing that a cell has simulated
    already.  ``study`` knows what the workloads of a portfolio have alone."""
    if not plan.config.what_if:
        return
    waiting, before = [], len(driver.ledger.known)
    for reference in list(_references(plan, study, driver)):
        cell, changed = reference.plan, list(reference.trials())
        if not changed:
            continue
        plain = [Trial(0, "", each.bandwidth, each.parameters.keys_only) for each in changed]
        trials, known = Trials.of(changed), cell.content.keys(Trials.of(plain))
        driver.ledger.copy(cell.cell, trials, cell.content.keys(trials), known)
        waiting += [driver.submit_beside(cell, Trials.of([each])) for each in changed]
    for batch in waiting:
        driver.collect(batch)
    driver.progress.what_ifs = len(driver.ledger.known) - before


def _references(plan: StudyPlan, study: StudyRecord, driver: Driver) -> Iterator[Reference]:
    """The designs that are changed: here is what else may be one."""
    splits = BANDWIDTH.among(plan.schema.names)
    columns = [
        *("key", "cell", "trial", "origin", "state", *CHANGE, "fidelity", *splits),
        *(objective.column for objective in study.objectives),
        *(*study.grid, *study.parameters),
    ]
    rows = driver.ledger.rows(list(dict.fromkeys(columns)))
    rows = rows.filter(pc.equal(rows["state"], COMPLETE))
    planned = {cell.cell.number: cell for cell in plan.cells if plan.stream is None}
    if study.is_certified and study.portfolios:  # the plans on the one network
        cells = [number for one in study.portfolios for number in one.cells]
        rows = rows.filter(pc.is_in(rows["cell"], pa.array(cells, rows["cell"].type)))
    chosen = _for_all(rows, plan, study) if plan.portfolios else _best(rows, plan)
    if plan.config.what_if == DEFAULT:
        chosen = chosen.slice(0, _MOST)
    scenarios = []
    for i in range(len(chosen)):
        number = chosen["cell"][i].as_py()
        cell = planned.get(number) or _planned(plan, number)
        if cell is None or (plan.config.what_if == DEFAULT and cell.config.by_message):
            continue
        scenarios.append(study.scenario(cell.cell.coordinates))
        (trial,) = trials_of(cell.config, chosen.slice(i, 1))
        yield Reference(cell, trial, chosen["key"][i].as_py())
    done = set(rows.filter(pc.equal(rows["origin"], BASELINE))["key"].to_pylist())
    for baseline in _baselines(plan):
        (key,) = baseline.content.keys(Trials.of(baseline.first))
        if key in done and study.scenario(baseline.cell.coordinates) in scenarios:
            yield Reference(baseline, baseline.first[0], key)


def _for_all(rows: pa.Table, plan: StudyPlan, study: StudyRecord) -> pa.Table:
    """The row of each workload at the one split of its portfolio, which is the report's."""
    found = list[int]()
    names = BANDWIDTH.among(rows.column_names)
    table = rows.to_pandas().sort_values("trial", kind="stable")
    shared = table["origin"] == PORTFOLIO
    table = table[shared | ~table["origin"].isin(BESIDE)].assign(shared=shared)
    table = table.sort_values("shared", kind="stable")  # a cell's own trials come first
    for one, entry in zip(plan.portfolios, study.portfolios, strict=True):
        cells = [table[table["cell"] == cell.cell.number] for cell in one.cells]
        splits = [name for name in names if cells[0][name].notna().any()]
        objective = one.cells[0].objective[0]
        designs, losses = common(cells, [*splits, *study.parameters], objective)
        if entry.own is not None and len(designs):
            together = Together(one.weighing, np.array(entry.own), objective)
            design = designs.iloc[together.best(losses)]
            found += [int(row_of(own, design).name) for own in cells]
    return rows.take(pa.array(found, pa.int64()))


def _baselines(plan: StudyPlan) -> Iterator[CellPlan]:
    """What there is today in each combination of the scenarios in which it can be."""
    if plan.stream_baselines is None:
        yield from plan.baselines
        return
    found = map(plan.stream_baselines.plan, range(len(plan.stream_baselines)))
    yield from (each.plan for each in found if not isinstance(each, PrunedCell))


def _best(rows: pa.Table, plan: StudyPlan) -> pa.Table:
    """The best row of each scenario, by the cell in which it is; what is best, of a cell and of a
    scenario's cells, is what the report says."""
    objectives, axes = plan.study.objectives, plan.study.scenarios
    rows = rows.filter(pc.invert(pc.is_in(rows["origin"], pa.array(BESIDE))))
    for objective in objectives:
        rows = rows.filter(pc.is_finite(rows[objective.column]))
    columns = {
        name: rows[name].to_numpy() for name in ("trial", *(each.column for each in objectives))
    }
    cells = rows["cell"].to_numpy()
    by_cell = np.argsort(cells, kind="stable")
    own = np.split(by_cell, np.flatnonzero(np.diff(cells[by_cell])) + 1) if len(rows) else []
    found = [g[best({name: v[g] for name, v in columns.items()}, objectives)] for g in own]
    rows = rows.take(pa.array(found, pa.int64()))
    order = "descending" if objectives[0].maximised else "ascending"
    rows = rows.sort_by([(objectives[0].column, order), ("cell", "ascending")])
    seen = dict[tuple[str, ...], int]()
    for i in range(len(rows)):
        seen.setdefault(tuple(rows[axis][i].as_py() for axis in axes), i)
    return rows.take(pa.array(list(seen.values()), pa.int64())).sort_by("cell")


def _planned(plan: StudyPlan, number: int) -> CellPlan | None:
    """The plan of a cell of a large grid."""
    assert plan.stream is not None
    found = plan.stream.plan(number)
    return None if isinstance(found, PrunedCell) else found.plan
