"""A page of charts is saved as what its name says."""

from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.api.results import Plot


def test_a_page_is_saved_as_html_only(tmp_path: Path) -> None:
    plot = Plot("<p>charts</p>")
    assert plot.save(tmp_path / "x.HTML").read_text() == plot.page
    for name in ("x.svg", "x.png", "x.pdf", "x", "x.htmlx"):
        with pytest.raises(DimsweepError, match="write_picture") as refused:
            plot.save(tmp_path / name)
        assert refused.value.where == str(tmp_path / name)
        assert not (tmp_path / name).exists()
