"""A small study."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dimsweep.sweeper.plugins import unload_plugins
from dimsweep.sweeper.run.loop import StudyPlan
from tests.support.studies import SMALL, planned


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans the main study, smaller, with results in a temporary folder, under more overrides."""

    def plan(*overrides: str, results: str = "results") -> StudyPlan:
        return planned([*SMALL, *overrides], tmp_path / results)

    return plan


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What plug-ins a test loads is forgotten after it."""
    yield
    unload_plugins()
