"""What rows and studies depend on follows from the parts of the configuration."""

import itertools

import pytest

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config, Design, Extent, Question, Run
from dimsweep.sweeper.questions.plan import recorded_config
from dimsweep.sweeper.study.content import Content
from tests.support.refused import refused
from tests.support.studies import TINY

PARTS = (Design, Question, Extent, Run)
CONFIG = compose(TINY).config


def other(name: str) -> Config:
    """The configuration with something else under a key, whatever it may be."""
    config = CONFIG.model_copy()
    config.__dict__["text"] = {**CONFIG.text, name: "another value"}
    return config


def test_each_key_is_of_one_part() -> None:
    for one, two in itertools.combinations(PARTS, 2):
        assert not one.model_fields.keys() & two.model_fields.keys()
    assert set().union(*(part.model_fields for part in PARTS)) == Config.model_fields.keys()
    assert not Config.__annotations__, "a key of none would be in no identity"


@pytest.mark.parametrize("name", Config.model_fields)
def test_what_a_key_changes_follows_from_its_part(name: str) -> None:
    """A design's keys make another row, and with a question's another study; the rest neither."""
    changed = other(name)
    assert (Content(changed).text != Content(CONFIG).text) == (name in Design.model_fields)
    another = name in Design.model_fields or name in Question.model_fields
    assert (recorded_config(changed) != recorded_config(CONFIG)) == another


@pytest.mark.parametrize("name", [*Run.model_fields, "note"])
def test_how_a_study_is_run_is_no_axis(name: str) -> None:
    with refused(f"grid.{name}", "unsupported"):
        compose([*TINY, f"+grid={{{name}: [a, b]}}"])
