"""A study that Python builds and runs."""

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from engine import DimsweepError
from sweeper.api.results import Results
from sweeper.config.compose import Composed, compose, is_group
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.place import place
from sweeper.run.driver import Progress
from sweeper.run.session import run_in
from sweeper.study.plan import StudyPlan, plan_study, study_name


class Study(Results):
    """A study: what the keys of a study's file say, given as a mapping.

        Study({"name": "mine", "workload": "gpt3_libra", "topology": "libra_4d",
               "space": {"bandwidth": {"total": "500 GB/s"}}, "budget.trials": 100})

    A config group's key with a text chooses an option of it; other keys, which may be dotted, have
    the value that YAML would give them.  Results are the same rows in the same folder as those of
    ``dimsweep sweep``, which may continue what Python began, and the other way round.
    """

    def __init__(self, keys: Mapping[str, Any], *overrides: str) -> None:
        """Raises :class:`DimsweepError` naming the key that is wrong."""
        if not isinstance(keys, Mapping):
            load = f"Study.load({str(keys)!r}) is the one of a file or a name"
            raise DimsweepError(f"{keys!r} is no mapping of keys", where="Study", hint=load)
        self._take(compose([*(_override(*item) for item in keys.items()), *overrides]))

    @classmethod
    def load(cls, study: str | Path, *overrides: str) -> Self:
        """The study in a file, or of that name in studies/, under overrides such as
        ``"budget.trials=100"``."""
        self = cls.__new__(cls)
        self._take(compose([f"study={study}", *overrides]))
        return self

    def _take(self, composed: Composed) -> None:
        self.composed = composed
        super().__init__(place(composed.config.results) / study_name(composed))

    @cached_property
    def plan(self) -> StudyPlan:
        """Its cells, with their spaces, proven bounds and the trials to try first."""
        return plan_study(self.composed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the design rules find odd about it."""
        return self.plan.study.warnings

    def run(
        self,
        watch: Callable[[Progress], None] = lambda progress: None,
        *,
        retry_failed: bool = False,
    ) -> Self:
        """Run it, or continue it; ``watch`` sees the progress.  Nothing is simulated twice, and
        interrupting it loses the trials in flight only.

        Raises :class:`DimsweepError` if its folder cannot be written, is in use, or holds another
        study.
        """
        with Ledger(
            self.folder, self.plan.study, self.plan.schema, retry_failed=retry_failed
        ) as ledger:
            run_in(ledger, self.plan, watch, tell=print)
        return self


def _override(key: str, value: Any) -> str:
    """A key and its value as the command line gives it; an option of a group by its bare name."""
    return f"{key}={value if isinstance(value, str) and is_group(key) else _written(value)}"


def _written(value: Any) -> str:
    """A value in Hydra's grammar, in which a mapping's keys have no quotes, but escapes."""
    if isinstance(value, Mapping):
        keys = [re.sub(r"([\\()\[\]{}:=, \t])", r"\\\1", str(key)) for key in value]
        pairs = zip(keys, value.values(), strict=True)
        return f"{{{','.join(f'{key}:{_written(each)}' for key, each in pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False)
