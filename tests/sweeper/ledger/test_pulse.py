"""The pulse of a sweep: whether it lives, as who looks on is told."""

from pathlib import Path

import pytest

from dimsweep.sweeper.ledger.lock import PULSE, Pulse, beat, last_pulse

AT = 1e9


@pytest.mark.parametrize(
    ("after", "over", "alive"),
    [
        (0, False, True),
        (29, False, True),
        (31, False, False),
        (3000, False, False),
        (0, True, False),
    ],
)
def test_a_sweep_without_a_beat_for_half_a_minute_is_dead(
    after: float, over: bool, alive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulse = Pulse(AT, done=3, failed=0, rate=0.5, workers=2, busy=0.5, nodes=1, over=over)
    beat(tmp_path, pulse)
    found = last_pulse(tmp_path)
    assert found == pulse
    monkeypatch.setattr("time.time", lambda: AT + after)
    assert found is not None and found.is_alive == alive


@pytest.mark.parametrize("content", ["", "{", "[]", '{"at": 1}'])
def test_what_is_no_pulse_is_none(content: str, tmp_path: Path) -> None:
    assert last_pulse(tmp_path) is None
    (tmp_path / PULSE).write_text(content)
    assert last_pulse(tmp_path) is None
