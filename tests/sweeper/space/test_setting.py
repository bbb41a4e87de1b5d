"""What a trial sets, and how rows tell it."""

import json
import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.rows import Cell, labels
from dimsweep.sweeper.space.trials import (
    MARK,
    Setting,
    Trial,
    Trials,
    trial_from_plain,
    trial_to_plain,
)
from dimsweep.sweeper.study.content import Content
from dimsweep.sweeper.study.restore import load_trials

VALUES = st.one_of(st.integers(), st.booleans(), st.text(), st.lists(st.integers(), max_size=2))
SETTINGS = st.dictionaries(st.sampled_from(["a", "b.c", "b.d[0]", MARK]), VALUES)
KEYS = [
    "study=libra_gpt3_4d",
    "space.parameters={collective.chunks: {values: [16, 64]}, topology.latency: "
    "{low: 1 us, high: 2 us}, npu.efficiency: {low: 0.2, high: 0.8}}",
]


@given(SETTINGS, SETTINGS)
def test_settings_of_one_text_are_one(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = Setting(one), Setting(dict(reversed(other.items())))
    assert (first == second) == (first.text == second.text)
    assert first.text == json.dumps(one, sort_keys=True)
    assert len({first, Setting(one), pickle.loads(pickle.dumps(first))}) == 1
    assert first == one and dict(first) == one
    assert MARK not in first.keys_only and first.without(*one) == {}


def test_keys_of_rows_are_those_of_the_values_alone() -> None:
    """Whoever proposed them, in whatever order, as a plain mapping or not."""
    content = Content(compose(["study=libra_gpt3_4d"]).config)
    split = (1e11, 2e11)
    same = [
        Trial(0, "tpe", split, Setting({"a": 1, "b": "x"})),
        Trial(7, "known", split, {"b": "x", "a": 1}),  # type: ignore[arg-type]
    ]
    first, second = content.keys(Trials.from_list(same))
    assert first == second
    (other,) = content.keys(Trials.from_list([Trial(0, "tpe", split, Setting({"a": 1, "b": "y"}))]))
    (none,) = content.keys(Trials.from_list([Trial(0, "tpe", split)]))
    assert len({first, other, none}) == 3
    assert trial_from_plain(json.loads(json.dumps(trial_to_plain(same[0])))) == same[0]


def test_a_row_says_what_its_trial_set() -> None:
    config = compose(KEYS).config
    own = {"collective.chunks": 64, "topology.latency": "1.5 us", "npu.efficiency": 0.25}
    trials = Trials.from_list(
        [
            Trial(3, "tpe", (3e11, 1.5e11, 4.5e10, 5e9), Setting(own)),
            Trial(4, "recheck", (3e11, 1.5e11, 4.5e10, 5e9), Setting(own | {"fidelity": "flow"})),
        ]
    )
    found = list[Trial]()
    for trial in trials:
        alone = Trials.from_list([trial])
        columns = labels(Cell(0, config, {}), alone, ["key"])
        split = {f"bandwidth_{d}_GBps": [b / 1e9] for d, b in enumerate(trial.bandwidth or ())}
        told = dict.fromkeys(("change", "change_of", "changes"), pa.nulls(1, pa.string()))
        found += load_trials(config, pa.table({**columns, **split, **told}))
    assert found == list(trials)
