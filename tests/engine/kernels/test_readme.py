"""The example of the kernels' README compiles, and computes what plain Python does."""

import importlib
import random
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[3] / "engine/kernels/README.md"


def test_the_example_serves_jobs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall("```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "kernels_example.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    example = importlib.import_module("kernels_example")
    pick = random.Random(0)
    arrivals = sorted(pick.randrange(2000) for _ in range(100))
    lasts = [pick.randrange(1, 40) for _ in arrivals]
    expected, free = [], 0
    for arrival, job in zip(arrivals, lasts, strict=True):
        free = max(free, arrival) + job
        expected.append(free)
    assert example.ends(arrivals, lasts) == expected
