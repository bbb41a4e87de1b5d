"""How the studies in a results folder stand, a row each."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from engine import DimsweepError
from sweeper.ledger.load import load
from sweeper.ledger.place import STUDY, Place, entries
from sweeper.ledger.pulse import last_pulse
from sweeper.ledger.record import StudyRecord, read_study
from sweeper.ledger.rows import BESIDE, COMPLETE
from sweeper.objective import Objective
from sweeper.report.words import fine_percent


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
    def searched(self) -> pd.DataFrame:
        """The complete rows of the searches, in the order of asking."""
        if self.rows.empty:
            return self.rows
        own = (self.rows["state"] == COMPLETE) & ~self.rows["origin"].isin(BESIDE)
        return self.rows[own].sort_values(["cell", "trial"])

    def best(self) -> pd.Series | None:
        """The best row so far."""
        rows, objective = self.searched, self.objective
        if rows.empty or objective is None:
            return None
        return rows.loc[(objective.sign * rows[objective.column]).idxmin()]


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


def line(standing: Standing, folder: Place) -> dict[str, object]:
    """A study as a row of the board's table."""
    pulse = last_pulse(folder / standing.name)
    alive = pulse is not None and pulse.is_alive
    told = {
        "study": standing.name,
        "state": standing.trouble or ("running" if alive else "at rest"),
        "trials": len(standing.rows),
        "of": 0 if standing.study is None else sum(c.trials for c in standing.study.cells),
        "failed": 0,
        "best": "",
        "gap": "",
        "rate": f"{pulse.rate:,.0f}" if alive and pulse else "",
        "actors": f"{pulse.workers}, {pulse.busy:.0%} busy" if alive and pulse else "",
    }
    best, objective = standing.best(), standing.objective
    if not standing.rows.empty:
        told["failed"] = int((standing.rows["state"] != COMPLETE).sum())
    if best is not None and objective is not None and standing.study is not None:
        told["best"] = objective.show(objective.of(best))
        bounds = {cell.cell: cell.bound for cell in standing.study.cells}
        bound = bounds[int(best["cell"])]
        if bound is not None:
            gap = objective.loss(objective.of(best)) / objective.loss(bound) - 1
            told["gap"] = fine_percent(gap)
    return told
