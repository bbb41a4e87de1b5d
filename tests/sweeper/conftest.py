"""A small study."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config.compose import compose
from sweeper.study.plan import StudyPlan, plan_study
from tests.support.studies import SMALL


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans the main study, smaller, with results in a temporary folder, under more overrides."""

    def plan(*overrides: str, results: str = "results") -> StudyPlan:
        return plan_study(compose([*SMALL, f"results={tmp_path / results}", *overrides]))

    return plan
