"""Serving the board, to this machine alone."""

import socket
from functools import partial

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import Server
from tornado.web import RequestHandler

from engine import DimsweepError
from sweeper.board.board import Board
from sweeper.draw.show.page import render
from sweeper.ledger.load import load
from sweeper.ledger.place import Place
from sweeper.ledger.record import read_study
from sweeper.report import Report

LOOPBACK = "127.0.0.1"


def make_server(folder: Place, port: int) -> Server:
    """A server of the board of ``folder`` on a port of this machine (0: any), started.

    Raises :class:`DimsweepError` if the port is taken.
    """
    port = port or _free_port()
    origins = [f"{host}:{port}" for host in (LOOPBACK, "localhost")]  # no other site may listen in
    reports = (r"/report/(\w[\w.+-]*)", _ReportPage, {"folder": folder})
    application = Application(FunctionHandler(partial(_show, folder)))
    try:
        server = Server(
            {"/": application},
            address=LOOPBACK,
            port=port,
            allow_websocket_origin=origins,
            extra_patterns=[reports],
        )
    except OSError as error:
        raise DimsweepError(
            f"port {port} cannot be had: {error.strerror or error}",
            where="--port",
            hint="another board may be running; give another port",
        ) from error
    server.start()
    return server


class _ReportPage(RequestHandler):
    """The report of a study as far as it is."""

    def initialize(self, folder: Place) -> None:
        self._folder = folder

    def get(self, name: str) -> None:
        try:
            study, rows = read_study(self._folder / name), load(self._folder / name).to_pandas()
            self.write(render(Report.of(rows, study)))
        except DimsweepError as error:
            self.set_status(404)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.write(str(error))


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((LOOPBACK, 0))
        return int(asked.getsockname()[1])


def _show(folder: Place, document: Document) -> None:
    Board(folder).show(document)
