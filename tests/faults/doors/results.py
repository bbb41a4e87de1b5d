"""Doors of a folder of results that somebody else gives, and of what is asked of it."""

import asyncio
import json
import socket
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.board.board import Board, make_server
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger import lock
from dimsweep.sweeper.ledger.files import encode_part
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import parse_place
from dimsweep.sweeper.ledger.record import read_record
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.questions import plan as planning
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run import checkpoint
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.session import run_in_ledger
from tests.faults.doors.door import DefectError, Files, command, door
from tests.support.ledgers import SCHEMA, dead_writer
from tests.support.ledgers import STUDY as SMALL
from tests.support.studies import TINY, planned, run

_OWN = ("rows.parquet", "study.json")
QUERY = b"""\
SELECT trial, min(time_s) AS t FROM rows JOIN whole USING (trial, time_s, state)
WHERE state = 'complete' GROUP BY 1 ORDER BY t LIMIT 3
"""
NAME = "libra_gpt3_4d"
_WORDS = (*TINY, "executor=inline", "space.parameters={collective.chunks: {low: 1, high: 8}}")


@cache
def _swept() -> Files:
    """A study of six trials, as its part's rows and its record without a checksum, as those of an
    older version have none; the files of another that is whole, to compare it with."""
    _sweep("results")
    folder = Path("results", NAME)
    (part,) = folder.glob("part-*")
    record = json.loads((folder / "study.json").read_text())
    del record["checksum"]
    found = {
        "rows.parquet": _plain(part),
        "study.json": json.dumps(record).encode(),
        **{f"results/whole/{f.name}": f.read_bytes() for f in folder.iterdir() if f.is_file()},
    }
    return {name: content for name, content in found.items() if not name.endswith("lock")}


def _sweep(results: str) -> None:
    """With what-ifs around the best design."""
    plan = planned([*_WORDS, "search=tpe", "what_if={slow: {topology.latency: x2}}"], results)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_in_ledger(ledger, plan, watch=lambda progress: None, notify=lambda text: None)


def _plain(part: Path) -> bytes:
    """Rows without what says whose they are."""
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(part).replace_schema_metadata(None), sink)
    return sink.getvalue().to_pybytes()


def _laid() -> str:
    """The folder of results that rows and record make, with the checksums that belong to them: what
    a sweep of another version, or a script, would write.  Rows that are no Parquet are a damage,
    which ``tests/faults/damages.py`` is about."""
    folder = Path("results", NAME)
    folder.mkdir(parents=True)
    record = Path("study.json").read_bytes()
    (folder / "study.json").write_bytes(record)
    try:
        rows = pq.read_table("rows.parquet")
    except (pa.ArrowException, OSError) as error:
        raise DimsweepError("it is no Parquet") from error
    name, data = encode_part(rows, 1, read_record(folder).identity)
    (folder / name).write_bytes(data)
    return str(folder)


@door("report OVERRIDES", good=_swept, own=_OWN)
def results_are_reported() -> None:
    _laid()
    command("report", NAME)


@door("compare STUDIES", good=_swept, own=_OWN)
def results_are_compared() -> None:
    command("compare", _laid(), "results/whole")


@door("diff FIRST", "diff SECOND", good=_swept, own=_OWN)
def results_are_told_apart() -> None:
    command("diff", _laid(), "results/whole")


@door("export STUDY", good=_swept, own=_OWN)
def results_are_exported() -> None:
    more = ("--csv", "rows.csv", "--parquet", "out.parquet", "--optuna", "study.journal")
    command("export", _laid(), *more)


@door("reproduce FOLDER", good=_swept, own=_OWN)
def results_are_reproduced() -> None:
    command("reproduce", _laid())


@door("sql STUDIES", good=_swept, own=_OWN)
def results_are_asked() -> None:
    folder = _laid()
    Stored(folder).table(["time_s"])
    command("sql", "SELECT * FROM rows ORDER BY time_s", folder)


@door("board RESULTS", good=_swept, own=_OWN)
def results_are_on_the_board() -> None:
    from bokeh.document import Document

    _laid()
    Board(parse_place("results")).show(Document())


@door(good=_swept, own=_OWN)
def results_are_gone_on_with() -> None:
    _laid()
    _sweep("results")


@door(good=lambda: {**_swept(), "name.txt": b"results/whole"}, own="name.txt")
def a_name_of_results() -> None:
    name = Path("name.txt").read_text("utf-8", "surrogateescape")
    command("compare", name)


@door("sql QUERY", good=lambda: {**_swept(), "query.sql": QUERY}, own=".sql")
def a_query() -> None:
    command(
        "sql", Path("query.sql").read_text("utf-8", "surrogateescape"), "results/whole", "--csv"
    )


@door("export --optuna", good=lambda: {**_swept(), "storage.txt": b"sqlite:///study.db"},
      own=".txt")  # fmt: skip
def a_storage_of_Optuna() -> None:  # noqa: N802
    command(
        "export",
        "results/whole",
        "--optuna",
        Path("storage.txt").read_text("utf-8", "surrogateescape"),
    )


def _storages() -> Files:
    swept = _swept()
    for name, content in swept.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    for storage in ("study.journal", "sqlite:///study.db"):
        command("export", "results/whole", "--optuna", storage)
    Path("results/whole").rename("results/other")
    record = json.loads(Path("results/other/study.json").read_text()) | {"name": "other"}
    del record["checksum"]
    Path("results/other/study.json").write_text(json.dumps(record))
    names = ["study.journal", "study.db", *(str(f) for f in Path("results/other").iterdir())]
    return {name: Path(name).read_bytes() for name in names}


@door(good=_storages, own=("journal", "db"))
def a_storage_of_somebody_else() -> None:
    for storage in ("study.journal", "sqlite:///study.db"):
        command("export", "results/other", "--optuna", storage)


@door(good=lambda: {**_swept(), "pulse.json": b'{"at": 1e9, "done": 3, "failed": 0, "rate": 2.5, '
      b'"workers": 2, "busy": 0.5, "nodes": 1, "over": false}'}, own="pulse.json")  # fmt: skip
def the_pulse_of_a_sweep() -> None:
    from bokeh.document import Document

    Path("results/whole/pulse.json").write_bytes(Path("pulse.json").read_bytes())
    Board(parse_place("results")).show(Document())


def _stopped() -> Files:
    """A study that was stopped with a bookmark."""
    from dimsweep.sweeper.run.loop import Progress

    class _StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done >= 4:
            raise _StopError

    words = [*_SEARCHED, "budget.trials=6"]
    stopped = planned(words, "results")
    with pytest.MonkeyPatch.context() as patch, suppress(_StopError):
        patch.setattr(checkpoint, "_MIN_INTERVAL", 0.0)
        run(stopped, watch=stop)
    found = {each.name: each for each in stopped.folder.iterdir() if each.is_file()}
    del found["lock"]
    return {f"results/{NAME}/{name}": each.read_bytes() for name, each in found.items()}


_SEARCHED = (*_WORDS, "search=tpe", "search.batch=2")


@door(good=_stopped, own="search-00000.json")
def a_bookmark_of_a_search() -> None:
    """One that is not as it was written is not used; its checksum tells."""
    run(planned([*_SEARCHED, "budget.trials=6"], "results"))


def _lost() -> Files:
    """The log of a writer that died, and what a store has in a lock's place."""
    dead_writer(Path("s"), [(0, 4), (4, 4)], SMALL)
    own = {str(file): file.read_bytes() for file in Path("s").iterdir() if file.name != "lock"}
    return {**own, "lease.json": b'{"who": "process 7 on a", "token": "x", "beats": 3}'}


@door(good=_lost, own=(".arrows", "lease.json"))
def a_log_and_a_lease_of_others() -> None:
    """Bytes that are changed are told, or are a tail that is cut off; the lease is dead."""
    folder = UPath("memory://lost/s")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "BEAT", 0.001)
        (folder / "lease-00007.json").write_bytes(Path("lease.json").read_bytes())
        try:
            with Ledger(folder, SMALL, SCHEMA):
                pass
        finally:
            folder.fs.rm("/lost", recursive=True)
    load("s")
    with Ledger(Path("s"), SMALL, SCHEMA):
        pass
    Path("s", "study.json").unlink()
    with Ledger(Path("s"), SMALL, SCHEMA):
        pass


def _large() -> Files:
    """A study of a large grid, whose cells are in files of their own."""
    run(_planned_large())
    folder = Path("results", NAME)
    return {str(file): file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _planned_large() -> StudyPlan:
    words = (*TINY, "executor=inline", "budget.trials=1", "grid={collective.chunks: [1, 2, 3]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "LARGE", 2)
        return plan_study(compose([*words, "results=results"], may_sweep=True))


@door(good=_large, own=(".arrows", "study.json"))
def cells_of_a_large_grid() -> None:
    command("compare", f"results/{NAME}")


ASKED = b"GET / HTTP/1.1 Host: 127.0.0.1:PORT Connection: close"
REPORT = b"GET /report/whole HTTP/1.1 Host: localhost Connection: close"


@cache
def _serving(folder: str) -> int:
    """The port of a board of the studies in a folder, which a thread serves."""
    ready = threading.Event()
    ports = list[int]()

    def serve() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        server = make_server(parse_place(folder), 0)
        ports.append(server.port)
        ready.set()
        server.io_loop.start()

    threading.Thread(target=serve, daemon=True).start()
    ready.wait()
    return ports[0]


@door(good=lambda: {"board.txt": ASKED, "report.txt": REPORT})
def an_address_of_the_board() -> None:
    """Answered, and not by an error of the server's."""
    folder = Path.cwd().parent / "served"
    folder.mkdir(exist_ok=True)
    port = _serving(str(folder))
    for name in ("report.txt", "board.txt"):
        asked = Path(name).read_bytes().replace(b"PORT", str(port).encode())
        line, _, rest = asked.partition(b" Host:")
        host, _, more = rest.partition(b" Connection:")
        head = b"\r\n".join([line, b"Host:" + host, b"Connection:" + more, b"", b""])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(head)
            try:
                answer = connection.makefile("rb").readline()
            except TimeoutError:  # it waits for a rest of the request
                answer = b""
        if answer.startswith(b"HTTP/1.1 5"):
            raise DefectError(answer.decode())
    if not answer.startswith(b"HTTP/1.1 2"):
        raise DimsweepError(answer.decode() or "no answer")
