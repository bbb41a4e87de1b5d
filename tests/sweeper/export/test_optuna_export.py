"""A study as Optuna keeps its own."""

from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import pandas as pd
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from dimsweep.sweeper.export.optuna import write_optuna
from dimsweep.sweeper.questions.findings import build_report
from tests.support.browser import browser, needs_browser
from tests.support.refused import refused
from tests.support.reports import fail, make_rows, make_study, search


def test_every_trial_of_every_cell_is_there(tmp_path: Path) -> None:
    rows = pd.concat(
        [fail(make_rows(search(6, seed=c), cell=c, budget=str(c)), {2}, "boom") for c in range(2)]
    ).assign(**{"collective.chunks": ["8", "64"] * 6})
    study = make_study(
        rows, objective=["time", "cost"], grid=["budget"], parameters=["collective.chunks"]
    )
    file = str(tmp_path / "journal.log")
    names = write_optuna(build_report(rows, study), file)
    assert names == ["demo: budget 0", "demo: budget 1"]
    storage = JournalStorage(JournalFileBackend(file))
    for cell, name in enumerate(names):
        found = optuna.load_study(study_name=name, storage=storage)
        own = rows[rows["cell"] == cell].set_index("trial")
        assert [t.state for t in found.trials].count(TrialState.FAIL) == 1
        for number, trial in enumerate(found.trials):
            row = own.loc[number]
            assert trial.params["bandwidth_3_GBps"] == row["bandwidth_3_GBps"]
            assert trial.params["collective.chunks"] == row["collective.chunks"]
            if trial.state == TrialState.COMPLETE:
                assert trial.values == [row["time_s"], row["cost_usd"]]
            else:
                assert trial.user_attrs["error"] == "boom"
        fastest = min(found.best_trials, key=lambda trial: trial.values[0])
        assert fastest.values[0] == own["time_s"].min()


def test_what_is_maximised_is_so_in_optuna(tmp_path: Path) -> None:
    rows = make_rows(search(8))
    file = str(tmp_path / "journal.log")
    study = make_study(rows, objective=["perf_per_cost", "time"])
    (name,) = write_optuna(build_report(rows, study), file)
    found = optuna.load_study(study_name=name, storage=JournalStorage(JournalFileBackend(file)))
    assert [each.name for each in found.directions] == ["MAXIMIZE", "MINIMIZE"]
    best = max(found.best_trials, key=lambda trial: trial.values[0])
    assert best.values[0] == rows["perf_per_cost"].max()


@pytest.mark.long
@needs_browser
def test_optuna_dashboard_shows_it(tmp_path: Path) -> None:
    from optuna_dashboard import wsgi  # here: it brings scikit-learn along

    rows = make_rows(search(12))
    file = str(tmp_path / "journal.log")
    write_optuna(build_report(rows, make_study(rows)), file)
    application = wsgi(JournalStorage(JournalFileBackend(file)))
    with make_server("127.0.0.1", 0, application, handler_class=_Quiet) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            with browser() as page:
                page.driver.get(f"http://127.0.0.1:{server.server_port}/dashboard")
                (study,) = page.until(lambda: page.all("a[href*='/studies/0']"))
                assert "demo" in study.text
                study.click()
                page.until(lambda: any("time_s" in text for text in page.texts("text, div")))
                page.until(lambda: len(page.all(".scatterlayer .point")) >= 12)
        finally:
            server.shutdown()
            thread.join()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests are not told."""


def test_a_study_that_is_there_already_is_kept(tmp_path: Path) -> None:
    rows = make_rows(search(3))
    report, file = build_report(rows, make_study(rows)), str(tmp_path / "journal.log")
    write_optuna(report, file)
    with refused("", "duplicate", "demo"):
        write_optuna(report, file)
