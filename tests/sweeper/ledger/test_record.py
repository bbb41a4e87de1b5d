"""study.json: one typed, frozen record, read as it was written."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import Frontier
from dimsweep.engine.rules import Pair
from dimsweep.sweeper.ledger.record import CellRecord, PortfolioRecord, StudyRecord, read_study
from dimsweep.sweeper.ledger.rows import ROWS_VERSION
from dimsweep.sweeper.objective import PERF_PER_COST, TIME

CELL = CellRecord(
    cell=0,
    coordinates={"workload": "gpt3_libra"},
    dims=("0: Ring(4)", "1: Switch(8)"),
    workload="GPT-3",
    n_npus=32,
    sampler="tpe",
    trials=40,
    bound=0.1 + 0.2,
    pairs=(Pair("tensor", 0, 1, 4.0),),
    ms_per_GBps=(-1e-17, math.inf),
    front=Frontier(*(np.arange(3.0) / 7 for _ in range(3)), np.ones((3, 2)) / 3),
)
STUDY = StudyRecord(
    name="s",
    model=2,
    rows=ROWS_VERSION,
    objective=("perf_per_cost", "time"),
    cells=(CELL,),
    portfolios=(PortfolioRecord(cells=(0,), measure="cvar", level=0.9, share=(1.0,)),),
    config={"a": {"b": [1, None, "x"]}},
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_bytes(STUDY.to_json())
    read = read_study(tmp_path)
    assert read.to_json() == STUDY.to_json()
    assert read.objectives == (PERF_PER_COST, TIME)
    (cell,) = read.cells
    assert cell.bound == CELL.bound and cell.pairs == CELL.pairs
    assert cell.ms_per_GBps == CELL.ms_per_GBps
    assert cell.front is not None and CELL.front is not None
    assert (cell.front.bandwidth == CELL.front.bandwidth).all()


@pytest.mark.parametrize(
    "damaged", [1.0, {"cost": []}, {"cost": [1.0, 2.0]}, {"bandwidth": [[1.0], [1.0, 2.0]]}]
)
def test_a_front_that_is_none_is_told(tmp_path: Path, damaged: Any) -> None:
    written = json.loads(STUDY.model_dump_json())  # has no checksum
    front = written["cells"][0]["front"]
    written["cells"][0]["front"] = {**front, **damaged} if isinstance(damaged, dict) else damaged
    (tmp_path / "study.json").write_text(json.dumps(written))
    with pytest.raises(DimsweepError, match=r"cannot be read: cells\.0\.front"):
        read_study(tmp_path)


def test_nothing_mutates_it() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        STUDY.name = "t"  # type: ignore[misc]
    found = STUDY.with_portfolio(0, own=(1.5,), bound=None)
    assert found.portfolios[0].own == (1.5,)
    assert STUDY.portfolios[0].own is None


def test_another_versions_study_is_refused_by_the_key(tmp_path: Path) -> None:
    text = STUDY.model_dump_json().replace('"trials"', '"points"')  # has no checksum
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(DimsweepError, match=r"cells\.0\.trials"):
        read_study(tmp_path)
