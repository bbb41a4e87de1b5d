"""The board: what it tells of studies, to this machine alone, and live in a browser."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pandas as pd
import pytest

from dimsweep import load
from dimsweep.sweeper.board.board import Board, _failures, make_server
from dimsweep.sweeper.board.standings import Standing, Standings, line
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.lock import Pulse, beat
from dimsweep.sweeper.run.loop import Progress
from dimsweep.sweeper.run.session import run_in_ledger
from tests.support.browser import Browser, browser, needs_browser
from tests.support.refused import refused
from tests.support.reports import fail, make_rows, make_study, search
from tests.support.studies import TINY, planned


def swept(results: Path, name: str, *words: str) -> None:
    """Have a small study of that name in the folder."""
    plan = planned([*TINY, "executor=inline", f"name={name}", *words], results)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_in_ledger(ledger, plan, watch=lambda _: None, notify=lambda _: None)


@contextmanager
def board(results: Path) -> Iterator[str]:
    """The address of a board, which runs in a thread of its own."""
    ready, found = threading.Event(), []

    def serve() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        server = make_server(results, 0)
        found.extend((server, server.io_loop))
        ready.set()
        server.io_loop.start()

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(30)
    server, loop = found
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        loop.add_callback(server.stop)
        loop.add_callback(loop.stop)
        thread.join()


def least(folder: Path) -> float:
    """The least time of a study's rows."""
    return float(load(folder, ["time_s"]).to_pandas()["time_s"].min())


def test_how_a_study_stands(tmp_path: Path) -> None:
    swept(tmp_path, "small")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.json").write_text("{}")
    standings = Standings(tmp_path)
    broken, small = standings.look()
    told = line(small, tmp_path)
    assert (told["progress"], told["failed"], told["state"]) == ("6", 0, "finished")
    assert told["best"] == small.objective.show(least(tmp_path / "small"))
    assert "cannot be read" in line(broken, tmp_path)["state"]
    assert standings.look()[1] is small  # what has not changed is not read again


def test_two_boards_cannot_have_one_port(tmp_path: Path) -> None:
    with board(tmp_path) as address:
        port = int(address.rsplit(":", 1)[1])
        with refused("--port", "inaccessible", str(port)):
            make_server(tmp_path, port)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/report/nothing")


@pytest.mark.long
@pytest.mark.parametrize("path", ["/", "/report/small", "/ws", "/static/js/bokeh.min.js"])
def test_a_board_answers_to_the_names_of_this_machine_only(path: str, tmp_path: Path) -> None:
    """A page whose name is bound to 127.0.0.1 once it is loaded may not read a study."""
    if "small" in path:
        swept(tmp_path, "small")

    def ask(host: str, **more: str) -> int:
        try:
            with urlopen(Request(f"{address}{path}", headers={"Host": host, **more})) as answer:
                return answer.status
        except HTTPError as error:
            told.append(error.read().decode())
            return error.code

    with board(tmp_path) as address:
        port, told = address.rsplit(":", 1)[1], list[str]()
        for evil in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "[::1"):
            assert ask(evil) == 403
            assert "the board answers to 127.0.0.1, localhost" in told.pop()
        ours = ["127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", "[::1]"]
        if "report" in path:  # it takes a while
            del ours[1:]
        wanted = 400 if path == "/ws" else 200  # it is no web socket
        assert {ask(host) for host in ours} == {wanted}


@pytest.mark.parametrize(("host", "origin"), [("127.0.0.1", "evil.example"), ("evil.example",) * 2])
def test_no_other_site_listens_in(host: str, origin: str, tmp_path: Path) -> None:
    shake = {
        "Host": host,
        "Origin": f"http://{origin}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with board(tmp_path) as address:
        asked = HTTPConnection(address.removeprefix("http://"))
        asked.request("GET", "/ws", headers=shake)
        assert asked.getresponse().status == 403
        asked.close()


def test_the_name_of_a_folder_is_no_markup(tmp_path: Path) -> None:
    (folder := tmp_path / "<img src=x>").mkdir()
    shown = Board(folder)
    shown.look()
    assert "&lt;img src=x&gt;" in shown.heading.text


@pytest.mark.long
@needs_browser
def test_a_board_follows_and_compares_studies(tmp_path: Path) -> None:
    swept(tmp_path, "narrow")
    swept(tmp_path, "wide", "space.bandwidth.total=400 GB/s")

    def row(page: Browser, name: str) -> str:
        return next(text for text in page.texts(".slick-row") if name in text)

    with board(tmp_path) as address, browser() as page:
        page.open(address)
        assert "finished\n6" in row(page, "narrow") and "finished\n6" in row(page, "wide")
        page.click(".slick-row input[type=checkbox]")
        page.until(lambda: any("Chosen: narrow, wide." in text for text in page.texts("p")))
        assert page.inked("body") > 500
        swept(tmp_path, "narrow", "budget.trials=9")
        page.until(lambda: "finished\n9" in row(page, "narrow"))
        assert page.complaints() == []
        page.open(f"{address}/report/wide")
        assert "What to build" in page.texts("dt")


def stopped(results: Path, name: str, *words: str, at: int = 3) -> None:
    """A study that is stopped after so many trials."""

    def watch(progress: Progress) -> None:
        if progress.done >= at:
            raise KeyboardInterrupt

    words = ("executor=inline", f"name={name}", "search.batch=1", *words)
    plan = planned([*TINY, *words], results)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger, suppress(KeyboardInterrupt):
        run_in_ledger(ledger, plan, watch=watch, notify=lambda _: None)


def test_what_runs_comes_first_and_says_how_long_what_was_stopped_is_not_finished(
    tmp_path: Path,
) -> None:
    for name, words in (("a", ()), ("b", ("search=random",)), ("c", ("search=random",))):
        swept(tmp_path, name) if name == "a" else stopped(tmp_path, name, *words)
    pulse = Pulse(at=time.time(), done=3, failed=0, rate=0.05, workers=2, busy=0.5, nodes=1)
    beat(tmp_path / "c", pulse)
    board = Board(tmp_path)
    board.look()
    data = board.table.data
    assert data["study"] == ["c", "a", "b"]
    assert data["state"] == ["running", "finished", "stopped"]
    assert data["progress"][1] == "6" and " of 6" in data["progress"][0]
    done = int(data["progress"][0].split()[0])
    assert data["left"][0] == pytest.approx((6 - done) / 0.05) and data["eta"][1:] == ["", ""]
    assert data["eta"][0].endswith((" s", " min"))
    assert data["loss"] == [least(tmp_path / each.name) for each in board._shown]


def test_a_board_tells_why_trials_failed(tmp_path: Path) -> None:
    rows = fail(make_rows(search(12)), range(3, 9), "needs 90 GB of <86> GB")
    rows.loc[5, "error"] = "needs 660 GB of <86> GB"
    standing = Standing.from_rows("demo", make_study(rows), rows)
    told = line(standing, tmp_path)
    assert (told["failed"], told["why"]) == (6, "needs 90.00 to 660.0 GB of <86> GB")
    assert "6 x needs 90.00 to 660.0 GB of &lt;86&gt; GB" in _failures(standing)


def test_the_gap_of_a_board_is_that_of_the_best_ones_cell(tmp_path: Path) -> None:
    """Two networks for one workload, each with a bound of its own."""
    parts = [
        make_rows(search(4, total=total), cell, network=str(cell))
        for cell, total in enumerate((250.0, 500.0))
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows["time_s"] = [4.0, 3.0, 5.0, 3.5, 2.5, 2.0, 2.2, 2.4]
    study = make_study(rows, grid=["network"])
    for bounds, gap in (((1.0, 1.6), "25"), ((1.0, None), "")):
        cells = [
            cell.model_copy(update={"bound": bound})
            for cell, bound in zip(study.cells, bounds, strict=True)
        ]
        changed = study.model_copy(update={"cells": tuple(cells)})
        told = line(Standing.from_rows("demo", changed, rows), tmp_path)
        assert told["loss"] == 2.0
        assert str(told["gap"]).split(".")[0].rstrip("%") == gap


def test_what_ifs_are_no_trials_of_a_board(tmp_path: Path) -> None:
    """A study of 240 trials had 336 of them, and failures that its report does not know."""
    rows = make_rows(search(12))
    beside = rows[:5].assign(origin="what_if", state=["failed"] + ["complete"] * 4)
    both = pd.concat([rows, beside], ignore_index=True)
    told = line(Standing.from_rows("demo", make_study(rows), both), tmp_path)
    assert (told["progress"].split()[0], told["failed"]) == ("12", 0)


def test_the_lines_of_one_study_are_its_cells(tmp_path: Path) -> None:
    swept(tmp_path, "cells", "grid={collective.chunks: [1, 2]}")
    board = Board(tmp_path)
    board.look()
    assert board.lines.data["name"] == ["chunks 1", "chunks 2"]
    assert len(set(board.lines.data["colour"])) == 2


@pytest.mark.long
@needs_browser
def test_a_board_is_as_wide_as_its_window(tmp_path: Path) -> None:
    swept(tmp_path, "one")
    for width, dark in ((1500, True), (500, False)):
        with board(tmp_path) as address, browser(width, dark=dark) as page:
            page.open(address)
            page.until(lambda page=page: page.all(".slick-row"))
            inner, whole = page.run("return [innerWidth, document.documentElement.scrollWidth]")
            assert whole <= inner
            (table,) = page.all(".slick-viewport-top.slick-viewport-left")[:1]
            assert table.size["width"] > 0.9 * inner
