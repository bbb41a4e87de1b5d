"""How the studies in a results folder stand, a row each."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd

from engine import DimsweepError
from sweeper.ledger.load import load
from sweeper.ledger.place import STUDY, Place, entries
from sweeper.ledger.pulse import last_pulse
from sweeper.ledger.record import StudyRecord, read_study
from sweeper.ledger.rows import BESIDE, COMPLETE
from sweeper.objective import Objective
from sweeper.report.causes import frequent_errors
from sweeper.report.scenes import scenes
from sweeper.report.words import duration, fine_percent


@dataclass(frozen=True)
class Standing:
    """One study: its record and its rows so far, or what is wrong with them."""

    name: str
    study: StudyRecord | None
    rows: pd.DataFrame
    trouble: str = ""

    @property
    def objective(self) -> Objective | None:
        return None if self.study is None else self.study.objectives[0]

    @property
    def trials(self) -> pd.DataFrame:
        """The rows of the searches; what is simulated beside them, such as what-ifs, was not
        planned as a trial."""
        return self.rows if self.rows.empty else self.rows[~self.rows["origin"].isin(BESIDE)]

    @property
    def searched(self) -> pd.DataFrame:
        """The complete rows of the searches, in the order of asking."""
        rows = self.trials
        if rows.empty:
            return rows
        return rows[rows["state"] == COMPLETE].sort_values(["cell", "trial"])

    @property
    def causes(self) -> list[tuple[str, int]]:
        """Why trials failed, and how many, the most frequent cause first."""
        rows = self.trials
        return [] if rows.empty else frequent_errors(rows[rows["state"] != COMPLETE])

    def bests(self) -> list[pd.Series]:
        """The best row so far of each scenario, in the order of the cells."""
        rows, objective, study = self.searched, self.objective, self.study
        if rows.empty or objective is None or study is None:
            return []
        (scene,) = scenes([study])
        losses = objective.sign * rows[objective.column]
        own = rows["cell"].map(scene)
        return [rows.loc[losses[own == name].idxmin()] for name in dict.fromkeys(own)]


@dataclass
class Standings:
    """The studies of a folder.  What has not changed since the last look is not read again."""

    folder: Place
    _seen: dict[str, tuple[object, Standing]] = field(default_factory=dict)

    def look(self) -> list[Standing]:
        """All studies that are there now, by name."""
        found = []
        for folder in entries(self.folder):
            if not (folder / STUDY).exists():
                continue
            state = tuple(_state(folder))
            kept = self._seen.get(folder.name)
            if kept is None or kept[0] != state:
                self._seen[folder.name] = kept = state, _read(folder)
            found.append(kept[1])
        return found


def _state(folder: Place) -> Iterator[tuple[str, int, float]]:
    """Changes with every row that is written."""
    for file in entries(folder):
        if file.suffix in (".arrows", ".parquet") or file.name == STUDY:
            about = file.stat()
            yield file.name, about.st_size, about.st_mtime


def _read(folder: Place) -> Standing:
    try:
        return Standing(folder.name, read_study(folder), load(folder).to_pandas())
    except DimsweepError as error:
        return Standing(folder.name, None, pd.DataFrame(), error.what)


@dataclass(frozen=True)
class Compared:
    """The best of a study in a scenario, and how many times as bad it is as the best of all studies
    that are compared there; ``study`` is its place among them."""

    study: int
    name: str
    scenario: str
    text: str
    over_best: float


def compared(chosen: Sequence[Standing]) -> list[Compared]:
    """The bests of studies with one objective, those of a scenario together: unlike models are not
    ranked against each other."""
    studies = [each.study for each in chosen if each.study is not None]
    found = [
        (scene[int(row["cell"])], place, standing, standing.objective, row)
        for place, (standing, scene) in enumerate(zip(chosen, scenes(studies), strict=True))
        for row in standing.bests()
    ]
    least = dict[str, float]()
    for scenario, _, _, objective, row in found:
        loss = objective.loss(objective.of(row))  # type: ignore[union-attr]
        least[scenario] = min(loss, least.get(scenario, loss))
    return [
        Compared(
            place,
            standing.name,
            scenario,
            objective.show(objective.of(row)),  # type: ignore[union-attr]
            objective.loss(objective.of(row)) / least[scenario],  # type: ignore[union-attr]
        )
        for name in least
        for scenario, place, standing, objective, row in found
        if scenario == name
    ]


def line(standing: Standing, folder: Place) -> dict[str, object]:
    """A study as a row of the board's table.

    ``done`` is the share of its trials (of those planned at most), ``loss`` the value of its best
    that is minimised and ``left`` the seconds until its end, for sorting: infinite where there is
    none.
    """
    study, pulse = standing.study, last_pulse(folder / standing.name)
    alive = pulse is not None and pulse.is_alive
    n, most = len(standing.trials), _most(study)
    told: dict[str, object] = {
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
        told |= {"left": left, "eta": duration(left)}
    if causes := standing.causes:
        told |= {"failed": sum(times for _, times in causes), "why": causes[0][0]}
    bests, objective = standing.bests(), standing.objective
    if len(bests) > 1:
        told["best"] = f"{len(bests)} scenarios"
    elif bests and objective is not None and study is not None:
        best, value = bests[0], objective.of(bests[0])
        told |= {"best": objective.show(value), "loss": float(objective.loss(value))}
        bounds = {cell.cell: cell.bound for cell in study.cells}
        bound = bounds[int(best["cell"])]
        if bound is not None:
            told["gap"] = fine_percent(objective.loss(value) / objective.loss(bound) - 1)
    return told


def _most(study: StudyRecord | None) -> int:
    """How many trials were planned at most, as far as it is known."""
    if study is None:
        return 0
    return study.n_trials or sum(cell.trials for cell in study.cells)


def _is_finished(study: StudyRecord | None) -> bool:
    return study is not None and study.finished is True


def _state_of(study: StudyRecord | None, *, alive: bool) -> str:
    """Whether a study runs, came to its end, or was stopped before; of those that older versions
    wrote only that it does not run."""
    if alive:
        return "running"
    if study is None or study.finished is None:
        return "at rest"
    return "finished" if study.finished else "stopped"
