"""Equal trials are simulated once: within a study, across its cells, across studies."""

from collections.abc import Callable

import pytest

from dimsweep import load
from dimsweep.sweeper.ledger.ledger import ROWS_PER_PART
from dimsweep.sweeper.run.loop import StudyPlan
from tests.support.studies import run

Small = Callable[..., StudyPlan]
OWN = ["key", "cell", "trial", "origin"]


@pytest.mark.parametrize("rows_per_part", [10, ROWS_PER_PART])
def test_cells_that_search_in_other_ways_share_rows(
    small: Small, monkeypatch: pytest.MonkeyPatch, rows_per_part: int
) -> None:
    """The first three trials of each are the same, in a part by then or in the log still."""
    monkeypatch.setattr("dimsweep.sweeper.ledger.ledger.ROWS_PER_PART", rows_per_part)
    plan = small("search=random", "+grid={search.seed: [0, 1, 2]}", "budget.trials=12")
    progress = run(plan)
    assert progress.borrowed == 6
    rows = load(plan.folder).to_pandas()
    assert rows.groupby("cell").size().tolist() == [12, 12, 12]
    assert rows["search.seed"].tolist() == ["0"] * 12 + ["1"] * 12 + ["2"] * 12
    same = rows.drop(columns=["cell", "search.seed", "exposed_by_collective_s"])
    for cell in (1, 2):
        first = same[rows.cell == cell].reset_index(drop=True)
        assert first[:3].equals(same[:3])
        assert first.key[:3].tolist() == rows.key[:3].tolist()
    assert run(plan).borrowed == 0, "they are the study's own now"
    assert len(load(plan.folder)) == 36


def test_studies_in_a_folder_share_rows(small: Small) -> None:
    whole = small("search=random", "name=whole", results="apart")
    run(whole)
    first = small("search=random", "name=first", "budget.trials=25")
    run(first)
    other = small("search=random", "name=whole")
    progress = run(other)
    assert progress.borrowed == 25
    assert load(other.folder).equals(load(whole.folder))


def test_a_study_of_something_else_lends_nothing(small: Small) -> None:
    run(small("search=random", "name=first"))
    assert run(small("search=random", "name=other", "collective.chunks=4")).borrowed == 0


def test_rows_that_cannot_be_read_are_simulated(small: Small) -> None:
    first = small("search=random", "name=first")
    run(first)
    (part,) = first.folder.glob("part-*")
    data = bytearray(part.read_bytes())
    data[2000] ^= 1
    part.write_bytes(data)
    other = small("search=random", "name=other")
    assert run(other).borrowed == 0
    assert set(load(other.folder).to_pandas().state) == {"complete"}
