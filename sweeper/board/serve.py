"""Serving the board, to this machine alone."""

import socket
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import Server
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.board.board import Board
from dimsweep.sweeper.draw.show.page import render
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.report.report import Report

LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost", "::1")  # under which this machine is asked by its own user


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
    server._tornado.default_router.rules.insert(0, Rule(_Elsewhere(), _Refusal))
    server.start()
    return server


class _Elsewhere(Matcher):
    """Requests that were sent to another host: a page whose name was bound to this machine's
    address after it was loaded counts as the same site to its browser, and could read all."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        try:
            asked = urlsplit(f"//{request.host}").hostname
        except ValueError:  # such as half an IPv6 address
            asked = None
        return None if asked in _HOSTS else {}


class _Refusal(RequestHandler):
    """What is said to such requests, of whatever kind."""

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"the board answers to {', '.join(_HOSTS)} only, not to another host's name")


class _ReportPage(RequestHandler):
    """The report of a study as far as it is."""

    def initialize(self, folder: Place) -> None:
        self._folder = folder

    def get(self, name: str) -> None:
        try:
            self.write(render(Report.read(self._folder / name)))
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
