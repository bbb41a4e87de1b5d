"""The board: what it tells of studies, to this machine alone, and live in a browser."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from engine import DimsweepError
from sweeper.board.board import Board
from sweeper.board.serve import make_server
from sweeper.board.standings import Standings, line
from sweeper.ledger.ledger import Ledger
from sweeper.run.session import run_in
from tests.support.browser import Browser, browser, needs_browser
from tests.support.studies import TINY, planned


def swept(results: Path, name: str, *words: str) -> None:
    """Have a small study of that name in the folder."""
    plan = planned([*TINY, "executor=inline", f"name={name}", *words], results)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_in(ledger, plan, watch=lambda _: None, tell=lambda _: None)


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


def test_how_a_study_stands(tmp_path: Path) -> None:
    swept(tmp_path, "small")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.json").write_text("{}")
    standings = Standings(tmp_path)
    broken, small = standings.look()
    told = line(small, tmp_path)
    assert (told["trials"], told["of"], told["failed"], told["state"]) == (6, 6, 0, "at rest")
    assert told["best"] == small.objective.show(small.rows["time_s"].min())
    assert "cannot be read" in line(broken, tmp_path)["state"]
    assert standings.look()[1] is small  # what has not changed is not read again


def test_two_boards_cannot_have_one_port(tmp_path: Path) -> None:
    with board(tmp_path) as address:
        port = int(address.rsplit(":", 1)[1])
        with pytest.raises(DimsweepError, match=f"port {port} cannot be had"):
            make_server(tmp_path, port)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/report/nothing")


def test_the_name_of_a_folder_is_no_markup(tmp_path: Path) -> None:
    (folder := tmp_path / "<img src=x>").mkdir()
    shown = Board(folder)
    shown.look()
    assert "&lt;img src=x&gt;" in shown.heading.text


@needs_browser
def test_a_board_follows_and_compares_studies(tmp_path: Path) -> None:
    swept(tmp_path, "narrow")
    swept(tmp_path, "wide", "space.bandwidth.total=400 GB/s")

    def row(page: Browser, name: str) -> str:
        return next(text for text in page.texts(".slick-row") if name in text)

    with board(tmp_path) as address, browser() as page:
        page.open(address)
        assert "6\n6" in row(page, "narrow") and "6\n6" in row(page, "wide")
        page.click(".slick-row input[type=checkbox]")
        page.until(lambda: any("Chosen: narrow, wide." in text for text in page.texts("p")))
        assert page.inked("body") > 500
        swept(tmp_path, "narrow", "budget.trials=9")
        page.until(lambda: "9\n9" in row(page, "narrow"))
        assert page.complaints() == []
        page.open(f"{address}/report/wide")
        assert "What to build" in page.texts("dt")
