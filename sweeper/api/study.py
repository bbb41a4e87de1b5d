"""Build and run a study from Python."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.api.keys import compose_keys
from dimsweep.sweeper.api.results import Results
from dimsweep.sweeper.api.session import Session, check_searcher, only_cell, session_record
from dimsweep.sweeper.api.space import SearchSpace
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.overrides import format_choice
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import parse_place
from dimsweep.sweeper.questions.plan import plan_study, study_name
from dimsweep.sweeper.run.loop import Progress, StudyPlan, SweepDriver
from dimsweep.sweeper.run.session import open_executor, run_in_ledger


class Study(Results):
    """A study, given as a mapping with the keys of a study's file.

        Study({"name": "mine", "workload": "gpt3_libra", "topology": "libra_4d",
               "space": {"bandwidth": {"total": "500 GB/s"}}, "budget.trials": 100})

    A config group's key with a text chooses an option of it; other keys, which may be dotted, have
    the value that YAML would give them.  Results are the same rows in the same folder as those of
    ``dimsweep sweep``, which may continue a study begun in Python, and vice versa.
    """

    def __init__(self, keys: Mapping[str, Any], *overrides: str) -> None:
        """Compose a study from ``keys`` and overrides.

        Raises :class:`DimsweepError` naming the wrong key.
        """
        if not isinstance(keys, Mapping):
            load = f"Study.load({str(keys)!r}) is the one of a file or a name"
            raise DimsweepError(
                f"{keys!r} is not a mapping of keys", where="Study", hint=load, code="wrong-type"
            )
        self._take(compose_keys(keys, overrides, may_sweep=True))

    @classmethod
    def load(cls, study: str | Path, *overrides: str) -> Self:
        """Return the study in a file, or with a name in studies/, after applying overrides.

        An override is a text such as ``"budget.trials=100"``.
        """
        self = cls.__new__(cls)
        self._take(compose([format_choice("study", str(study)), *overrides], may_sweep=True))
        return self

    def _take(self, composed: ComposedConfig) -> None:
        self.composed = composed
        super().__init__(parse_place(composed.config.results) / study_name(composed))

    @cached_property
    def plan(self) -> StudyPlan:
        """Plan of the study: cells with their search spaces, proven bounds and first trials."""
        return plan_study(self.composed)

    @property
    def space(self) -> SearchSpace:
        """Search space of the study: names, ranges and choices, and the valid bandwidth splits.

        Raises :class:`DimsweepError` in a study of several cells, each with a separate space.
        """
        return SearchSpace.from_cell(only_cell(self.plan), self.plan.study.cells[0].dims)

    @contextmanager
    def session(self, searcher: str = "user") -> Iterator[Session]:
        """Return a context with the study open, for the caller's own search.

            with study.session("mine") as session:
                found = session.simulate([{"bandwidth": ["300 GB/s", "200 GB/s"]}])
                session.tell(session.simulate(session.ask(8)))

        Its rows are added to the study: :meth:`run` and later sessions do not simulate them again.
        ``searcher`` is the name in the column ``origin``.

        Raises :class:`DimsweepError` as :meth:`run` and :attr:`space` do.
        """
        cell = only_cell(self.plan)
        name, study = check_searcher(searcher), session_record(self.plan.study, self.folder)
        with (
            Ledger(self.folder, study, self.plan.schema) as ledger,
            open_executor(ledger, self.plan, lambda progress: None, notify=print) as (
                executor,
                watch,
            ),
        ):
            session = Session(cell, SweepDriver(ledger, executor, watch), name)
            try:
                yield session
            finally:
                session.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the design rules about the study."""
        return self.plan.study.warnings

    def run(
        self,
        watch: Callable[[Progress], None] = lambda progress: None,
        *,
        retry_failed: bool = False,
    ) -> Self:
        """Run the study, or continue it; ``watch`` receives the progress.

        Nothing is simulated twice; an interruption loses only the trials in flight.

        Raises :class:`DimsweepError` if its folder cannot be written, is in use, or contains
        another study.
        """
        with Ledger(
            self.folder, self.plan.study, self.plan.schema, retry_failed=retry_failed
        ) as ledger:
            run_in_ledger(ledger, self.plan, watch, notify=print)
        return self
