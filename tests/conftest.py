"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every machine, and no verdict on how long one takes.
settings.register_profile("dimsweep", deadline=None, derandomize=True)
settings.load_profile("dimsweep")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ``shared`` beside the repository, where other tools' recorded results are."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}, which holds the recorded results")
    return folder
