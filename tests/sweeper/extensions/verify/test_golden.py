"""Recorded results that a verification looks for itself."""

import tomllib
from pathlib import Path

import pytest

from dimsweep.sweeper.extensions.verify import points
from tests.support.refused import refused

ROOT = Path(__file__).parents[4]


def test_a_checkout_and_a_package_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert points.find_recorded("nccl.csv", "--data") == ROOT / "tests/golden/nccl.csv"
    monkeypatch.setattr(points, "_HOMES", (tmp_path / "golden", tmp_path / "tests/golden"))
    with refused("FOLDERS", "missing", "astra", "tests/golden/astra"):
        points.find_recorded("astra", "FOLDERS")
    (tmp_path / "golden" / "astra").mkdir(parents=True)
    assert points.find_recorded("astra", "FOLDERS") == tmp_path / "golden" / "astra"


def test_the_wheel_brings_the_small_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    brought = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for name in ("clusters", "nccl.csv", "roce"):
        assert brought[f"tests/golden/{name}"] == f"dimsweep/golden/{name}"
        assert (ROOT / "tests/golden" / name).exists()
