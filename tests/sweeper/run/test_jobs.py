"""Several jobs in a study: each job's time and slowdown in the rows, and in the report."""

import json
from pathlib import Path

import pandas as pd
import pytest

from dimsweep import load
from dimsweep.sweeper.export.rows import write_csv
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.questions.findings import read_report, tabulate_study
from dimsweep.sweeper.simulation.simulate import AloneRunners, simulate
from tests.support.studies import TINY, planned, run

STUDY = (  # of small jobs
    "study=jobs_on_a_clos",
    *(f"workload.jobs.{name}.workload=all_reduce" for name in ("dense", "experts")),
)


@pytest.mark.long
def test_each_job_of_a_study_has_a_time_and_a_slowdown(tmp_path: Path) -> None:
    plan = planned(STUDY, tmp_path)
    run(plan)
    rows = load(plan.folder).to_pandas()
    packed, _, scattered, _ = (dict(slowdown) for slowdown in rows["job_slowdown"])
    assert packed == {"dense": 1.0, "experts": 1.0} and packed.keys() == scattered.keys()
    assert min(scattered.values()) > 1.2
    for i, (time, cell) in enumerate(zip(rows["time_s"], plan.cells, strict=True)):
        own = simulate(cell.config)
        jobs = AloneRunners.from_config(cell.config).times(own.run.measures.end[0])
        assert dict(rows["job_s"][i]) == {name: job.time for name, job in jobs.items()}
        assert max(dict(rows["job_s"][i]).values()) == time
    (table,) = [
        sheet for sheet in tabulate_study(read_report(plan.folder)) if "Each job" in sheet.title
    ]
    assert [row[-1] for row in table.rows][:2] == ["1.00x", "1.00x"] and len(table.rows) == 8
    assert table.columns[:3] == ("placement", "routing", "job")
    write_csv(Stored(plan.folder), tmp_path / "rows.csv")
    assert json.loads(pd.read_csv(tmp_path / "rows.csv")["job_slowdown"][0]) == packed


def test_one_workload_has_no_jobs(tmp_path: Path) -> None:
    plan = planned([*TINY, "fidelity=message", "budget.trials=1"], tmp_path)
    run(plan)
    (row,) = load(plan.folder).to_pylist()
    assert row["job_s"] is None and row["job_slowdown"] is None
    assert not [
        each for each in tabulate_study(read_report(plan.folder)) if "Each job" in each.title
    ]
