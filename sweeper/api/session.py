"""Search a study with a caller's own algorithm: ask, simulate, tell."""

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.place import STUDY, Place
from dimsweep.sweeper.ledger.record import DamagedStudyError, StudyRecord, read_record
from dimsweep.sweeper.ledger.rows import ASKED, EXTRA_ORIGINS
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.questions.split.search import known_rows
from dimsweep.sweeper.run.loop import StudyPlan, SweepDriver, Work
from dimsweep.sweeper.search import Sampler
from dimsweep.sweeper.space.design import design_from_trial, read_design
from dimsweep.sweeper.space.trials import Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan


@dataclass(frozen=True)
class Simulated:
    """A simulated design; its bandwidths are on the study's grid.

    ``values`` are those of the objectives, in the units of their columns, or ``None`` if the design
    failed (the study's rows have the error).  ``slopes`` are the seconds that one more byte/s in
    each dimension adds to the time, or ``None`` if unknown, as in fidelities other than ``phase``.
    """

    design: Mapping[str, Any]
    values: tuple[float, ...] | None
    slopes: tuple[float, ...] | None
    _trial: Trial = field(repr=False, compare=False)


class Session:
    """A study that is open for a caller's own search; :meth:`Study.session` opens one.

    Simulated designs have separate rows in the study, which nothing replaces. A design that the
    study itself tries first keeps the row of that trial.
    """

    def __init__(self, cell: CellPlan, driver: SweepDriver, searcher: str) -> None:
        self._cell, self._searcher = cell, searcher
        self._open: SweepDriver | None = driver
        self._first = dict(zip(self._keys(cell.first), cell.first, strict=True))
        self._asked = defaultdict[str, list[Trial]](list)  # without a result yet, by key
        self._next = _next_number(cell, driver)

    def ask(self, n: int | None = None) -> list[dict[str, Any]]:
        """Return up to ``n`` designs that the study's sampler proposes next; by default one batch.

        There is at least one unless its grid is exhausted.  :meth:`Study.run` would simulate these
        designs after the same results.

        Raises :class:`DimsweepError` if a sampler of generations needs more results than it has.
        """
        wanted = self._wanted
        if not isinstance(n, int | None) or isinstance(n, bool) or (n is not None and n < 1):
            raise DimsweepError(
                f"{n!r} is not a number of designs",
                where="ask",
                hint="give a whole number such as 8",
                code="out-of-range",
            )
        if n is not None and self._sampler.batch is not None and n < wanted:
            what = f"its sampler proposes {wanted} designs now, and learns from all of them at once"
            raise DimsweepError(
                what, where="ask", hint="ask() returns all of them", code="out-of-range"
            )
        trials = list(self._sampler.ask(n or wanted))
        for text, trial in zip(self._keys(trials), trials, strict=True):
            self._asked[text].append(trial)
        return [design_from_trial(trial) for trial in trials]

    def simulate(self, designs: Sequence[Mapping[str, Any]]) -> list[Simulated]:
        """Simulate designs, proposed by :meth:`ask` or by the caller, in one batch.

        Each is a mapping as :attr:`Study.space` describes.  Designs that the study, or another
        study next to it, has simulated are not simulated again.  Raises :class:`DimsweepError` for
        a design that is not in the space, before any is simulated.
        """
        driver = self._driver
        if isinstance(designs, Mapping | str) or not isinstance(designs, Sequence):
            raise DimsweepError(
                f"{designs!r} is not a list of designs", hint="put one in a list", code="wrong-type"
            )
        if not designs:
            return []
        found = []
        for i, design in enumerate(designs):
            with naming_key(f"designs[{i}]"):
                found.append(read_design(self._cell.space, design))
        trials = self._named(found)
        results = driver.collect(driver.submit(Work(self._cell, Trials.from_list(trials))))
        driver.record(results)
        return [
            Simulated(design_from_trial(trial), _tuple(value), _tuple(slope), trial)
            for trial, value, slope in zip(
                trials, known_rows(results.values), known_rows(results.slopes), strict=True
            )
        ]

    def tell(self, found: Sequence[Simulated]) -> None:
        """Pass simulated designs to the study's own sampler, whichever searcher proposed them."""
        self._driver  # noqa: B018
        if not all(isinstance(one, Simulated) for one in found):
            raise DimsweepError(
                "tell takes what simulate returned", where="tell", code="wrong-type"
            )
        if self._sampler.prefetch is None:
            return  # it learns nothing
        own, others = list[tuple[Trial, Simulated]](), list[Simulated]()
        for text, one in zip(self._keys([one._trial for one in found]), found, strict=True):
            if self._asked[text]:
                own.append((self._asked[text].pop(0), one))
            else:
                others.append(one)
        # A sampler knows batches by their numbers; those of others' designs are no trial's.
        strange = range(-1 - len(others), -1)
        foreign = [(replace(one._trial, number=i), one) for i, one in zip(strange, others)]  # noqa: B905
        own.sort(key=lambda pair: pair[0].number)
        runs = itertools.groupby(enumerate(own), lambda place: place[1][0].number - place[0])
        for batch in [*([pair for _, pair in run] for _, run in runs), foreign]:
            if batch:
                trials, results = zip(*batch, strict=True)
                self._sampler.tell(
                    trials, [one.values for one in results], [one.slopes for one in results]
                )

    def close(self) -> None:
        """Detach from the study's folder; called before the folder is closed."""
        self._open = None

    @property
    def _driver(self) -> SweepDriver:
        if self._open is None:
            hint = "simulate within the `with` of Study.session"
            raise DimsweepError("the session is over", where="session", hint=hint, code="conflict")
        return self._open

    @property
    def _wanted(self) -> int:
        """Number of designs that the study's sampler proposes at once; raises if closed."""
        self._driver  # noqa: B018
        return self._sampler.batch or self._cell.config.search.batch

    @cached_property
    def _sampler(self) -> Sampler:
        return self._cell.sampler()

    def _keys(self, trials: Sequence[Trial]) -> list[str]:
        return self._cell.content.keys(Trials.from_list(trials)) if trials else []

    def _named(self, designs: Sequence[Trial]) -> list[Trial]:
        """Return the trials of designs, each with a number and the searcher as origin."""
        keys, trials = self._keys(designs), list[Trial]()
        known = self._driver.ledger.index.places(keys, self._cell.cell.number) >= 0
        rows = {text for text, old in zip(keys, known, strict=True) if old} | self._first.keys()
        for text, design in zip(keys, designs, strict=True):
            asked = self._asked.get(text)
            name = asked[0].origin if asked else self._searcher
            trial = replace(design, number=self._next, origin=f"{ASKED}{name}")
            trials.append(self._first.get(text, trial))
            self._next += text not in rows
            rows.add(text)
        return trials


def _tuple(numbers: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if numbers is None else tuple(numbers)


def only_cell(plan: StudyPlan) -> CellPlan:
    """Return the only cell of a study; raises :class:`DimsweepError` if there are several."""
    if len(plan.cells) > 1:
        raise DimsweepError(
            f"the study has {plan.study.n_streamed or len(plan.cells):,} cells, each with a "
            "separate search",
            where="grid",
            code="unsupported",
            hint="search the axis (space.parameters), or leave it out and give one of its values",
        )
    return plan.cells[0]


def check_searcher(searcher: str) -> str:
    """Return the name of a searcher; raises :class:`DimsweepError` if it is invalid."""
    if not isinstance(searcher, str) or not re.fullmatch(r"[\w.+-]{1,60}", searcher):
        hint = "letters, digits, _, ., + and -, such as optuna"
        raise DimsweepError(
            f"{searcher!r} is not a valid name of a searcher",
            where="session",
            hint=hint,
            code="bad-syntax",
        )
    return searcher


def session_record(study: StudyRecord, folder: Place) -> StudyRecord:
    """Return the study's record to write after a session; slopes are marked as known.

    The progress of the study's own search stays as recorded; a search that has not begun counts as
    neither planned nor exhaustive.
    """
    try:
        old = read_record(folder) if (folder / STUDY).exists() else None
    except DamagedStudyError:  # the ledger sets it aside
        old = None
    finished, planned = (None, None) if old is None else (old.finished, old.n_trials)
    cells = study.cells
    if finished is None:
        cells = tuple(cell.model_copy(update={"exhaustive": False}) for cell in cells)
    update = {"finished": finished, "n_trials": planned, "cells": cells}
    return study.model_copy(update={"learns_from_slopes": True, **update})


def _next_number(cell: CellPlan, driver: SweepDriver) -> int:
    """Return the number that follows all trials of the cell, including planned first trials."""
    rows = driver.ledger.rows(["cell", "trial", "origin"])
    beside = pc.is_in(rows["origin"], pa.array(EXTRA_ORIGINS)).to_numpy()
    numbers = rows["trial"].to_numpy()[(rows["cell"].to_numpy() == cell.cell.number) & ~beside]
    return int(np.max(numbers, initial=len(cell.first) - 1)) + 1
