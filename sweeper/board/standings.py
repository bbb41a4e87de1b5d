"""The current state of each study in a results folder."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pandas as pd

from dimsweep.engine import DimsweepError, units
from dimsweep.sweeper.ledger.lock import last_pulse
from dimsweep.sweeper.ledger.place import STUDY, Place, list_folder
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.decisions import scenes
from dimsweep.sweeper.report.trials import Overview, Rows
from dimsweep.sweeper.report.words import fine_percent

_LONG = 1.0  # seconds of CPU time; who reads for longer reads rarely
_RARELY = 10  # times as long as it takes


@dataclass(frozen=True)
class Search:
    """The search of a cell so far: number and value of each improvement, and the last trial."""

    numbers: Sequence[int]
    values: Sequence[float]
    last: int


@dataclass(frozen=True)
class Standing:
    """The state of one study: its record, trials, causes of failures and searches.

    ``trouble`` is the error if the study cannot be read.
    """

    name: str
    study: StudyRecord | None
    n_trials: int = 0
    causes: Sequence[tuple[str, int]] = ()
    searches: Mapping[int, Search] = field(default_factory=dict)
    trouble: str = ""

    @classmethod
    def from_rows(cls, name: str, study: StudyRecord, rows: pd.DataFrame | Stored) -> Self:
        """Return the state of a study with ``rows``; what-ifs do not count as trials."""
        seen = Overview.from_rows(Rows.wrap(rows), study)
        every, column = seen.searched.values(), study.objectives[0].column
        searches = {
            one.cell.cell: Search(one.steps["trial"].tolist(), one.steps[column].tolist(), one.last)
            for one in every
            if one.n_complete
        }
        n_broken = sum(one.n_broken for one in every)
        n = n_broken + sum(one.n_complete for one in every)
        causes = frequent_errors(seen.broken()) if n_broken else ()
        return cls(name, study, n, causes, searches)

    @property
    def objective(self) -> Objective | None:
        """First objective of the study."""
        return None if self.study is None else self.study.objectives[0]

    def bests(self) -> list[tuple[int, float]]:
        """Return cell and best value so far of each scenario, in the order of the cells."""
        if not self.searches or self.study is None:
            return []
        (scene,), (objective, *_) = scenes([self.study]), self.study.objectives
        found = dict[str, tuple[int, float]]()
        for cell in sorted(self.searches):
            own = self.searches[cell].values[-1]
            before = found.get(scene[cell])
            if before is None or objective.is_better(own, before[1]):
                found[scene[cell]] = cell, own
        return list(found.values())


@dataclass
class Standings:
    """The states of all studies in a folder.

    Unchanged studies are not read again, and large ones rarely.
    """

    folder: Place
    _seen: "dict[str, _Look]" = field(default_factory=dict)

    def look(self) -> list[Standing]:
        """Return the current state of each study in the folder, by name."""
        found = []
        for folder in list_folder(self.folder):
            if not (folder / STUDY).exists():
                continue
            state = tuple(_state(folder))
            kept = self._seen.get(folder.name)
            if kept is None or (kept.state != state and time.monotonic() >= kept.again):
                started = time.process_time()
                standing = _read(folder)
                took = time.process_time() - started
                again = time.monotonic() + (took > _LONG) * _RARELY * took
                self._seen[folder.name] = kept = _Look(state, standing, again)
            found.append(kept.standing)
        return found


@dataclass(frozen=True)
class _Look:
    """The last reading of a study: the state of its files, and when to read it again."""

    state: object
    standing: Standing
    again: float


def _state(folder: Place) -> Iterator[tuple[str, int, float]]:
    """Yield name, size and modification time of each file with rows."""
    for file in list_folder(folder):
        if file.suffix in (".arrows", ".parquet") or file.name == STUDY:
            about = file.stat()
            yield file.name, about.st_size, about.st_mtime


def _read(folder: Place) -> Standing:
    try:
        stored = Stored(folder)
        return Standing.from_rows(folder.name, stored.study, stored)
    except DimsweepError as error:
        return Standing(folder.name, None, trouble=error.problem)


@dataclass(frozen=True)
class Compared:
    """The best value of a study in a scenario, and its ratio to the best of all compared studies.

    ``study`` is the study's position among them.
    """

    study: int
    name: str
    scenario: str
    text: str
    over_best: float


def compared(chosen: Sequence[Standing]) -> list[Compared]:
    """Return the best values of studies with a common objective, grouped by scenario.

    Different models are not ranked against each other.
    """
    studies = [each.study for each in chosen if each.study is not None]
    found = [
        (scene[cell], place, standing, standing.objective, value)
        for place, (standing, scene) in enumerate(zip(chosen, scenes(studies), strict=True))
        for cell, value in standing.bests()
    ]
    least = dict[str, float]()
    for scenario, _, _, objective, value in found:
        loss = objective.loss(value)  # type: ignore[union-attr]
        least[scenario] = min(loss, least.get(scenario, loss))
    return [
        Compared(
            place,
            standing.name,
            scenario,
            objective.show(value),  # type: ignore[union-attr]
            objective.loss(value) / least[scenario],  # type: ignore[union-attr]
        )
        for name in least
        for scenario, place, standing, objective, value in found
        if scenario == name
    ]


def line(standing: Standing, folder: Place) -> dict[str, object]:
    """Return a study as a row of the board's table.

    ``done`` is the share of the planned trials, ``loss`` the minimised value of the best one, and
    ``left`` the remaining seconds (infinite if unknown): the table sorts by them.
    """
    study, pulse = standing.study, last_pulse(folder / standing.name)
    alive = pulse is not None and pulse.is_alive
    n, most = standing.n_trials, _count_planned(study)
    row: dict[str, object] = {
        "study": standing.name,
        "state": standing.trouble or _state_of(study, alive=alive),
        "done": 1.0 if study is not None and study.finished else n / max(most, n, 1),
        "progress": f"{n:,} of {most:,}" if most >= n and not _is_finished(study) else f"{n:,}",
        "left": math.inf,
        "eta": "",
        "failed": 0,
        "why": "",
        "objective": study.objectives[0].name if study is not None else "",
        "loss": math.inf,
        "best": "",
        "gap": "",
        "rate": f"{pulse.rate:,.0f}" if alive and pulse else "",
        "actors": f"{pulse.workers}, {pulse.busy:.0%} busy" if alive and pulse else "",
    }
    if alive and pulse is not None and pulse.rate > 0:
        left = max(most - n, 0) / pulse.rate
        row |= {"left": left, "eta": units.format_duration(left)}
    if causes := standing.causes:
        row |= {"failed": sum(times for _, times in causes), "why": causes[0][0]}
    bests, objective = standing.bests(), standing.objective
    if len(bests) > 1:
        row["best"] = f"{len(bests)} scenarios"
    elif bests and objective is not None and study is not None:
        ((cell, value),) = bests
        row |= {"best": objective.show(value), "loss": float(objective.loss(value))}
        bound = {each.cell: each.bound for each in study.cells}[cell]
        if bound is not None:
            row["gap"] = fine_percent(objective.gap(value, bound))
    return row


def _count_planned(study: StudyRecord | None) -> int:
    """Return the largest planned number of trials, if known."""
    if study is None:
        return 0
    return study.n_trials or sum(cell.trials for cell in study.cells)


def _is_finished(study: StudyRecord | None) -> bool:
    return study is not None and study.finished is True


def _state_of(study: StudyRecord | None, *, alive: bool) -> str:
    """Return the state of a study as text: it runs, has finished, or was stopped.

    Studies of older versions without a record of that are at rest.
    """
    if alive:
        return "running"
    if study is None or study.finished is None:
        return "at rest"
    return "finished" if study.finished else "stopped"
