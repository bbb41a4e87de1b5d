"""Joining a cluster, what travels to its nodes, and the limits of a worker there."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.sweeper import places
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.study import Executor
from dimsweep.sweeper.ledger.rows import Cell
from dimsweep.sweeper.run.executor import EXECUTORS, executor, guest, make_executor
from dimsweep.sweeper.run.executor.cluster import _join_error, _report_start_errors, check_actors
from dimsweep.sweeper.run.executor.worker import Luggage, _memory_limit
from dimsweep.sweeper.run.loop import StudyPlan
from tests.support.refused import refused
from tests.support.studies import run
from tests.support.toy_ray import toy_executor

Small = Callable[..., StudyPlan]
PACKAGE = Path(dimsweep.__file__).parent


class AuthenticationError(Exception):
    """As Ray's, which tells it in a traceback only."""


@pytest.mark.parametrize("mode", ["token", None])
def test_another_token_is_named(mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    else:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    error = ConnectionError("Failed to connect to Ray cluster")
    error.__cause__ = RuntimeError("Traceback ...\nray.exceptions.AuthenticationError: RPC error")
    names = "head:6379", f"RAY_AUTH_MODE is {mode or 'not set'}", "RAY_AUTH_TOKEN_PATH"
    with refused("executor.address", "inaccessible", *names):
        raise _join_error("head:6379", error)


@pytest.mark.parametrize(
    ("address", "code", "named"),
    [
        ("ray://head:10001", "bad-syntax", "ray://head:10001"),
        ("127.0.0.1:1", "inaccessible", ":1'"),
        ("auto", "inaccessible", ":1'"),
    ],
)
def test_an_address_where_no_cluster_is(
    address: str, code: Code, named: str, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster of ``auto`` has died, and Ray is not asked to wait for it."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("Ray waits for minutes"))
    plan = small("executor=address", f"executor.address={address}")
    with refused("executor.address", code, named):
        run(plan, make_executor(plan.config, plan.simulated, plan.schema))


@pytest.mark.parametrize(("actors", "fits"), [(0, False), (1, True), (8, True), (9, False)])
def test_a_cpu_has_few_actors(actors: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with nullcontext() if fits else refused("executor.actors", "out-of-range", str(actors)):
        check_actors(Executor(actors=actors))
    if actors:
        check_actors(Executor(mode="address", actors=actors))  # nodes may join


def test_a_finished_study_starts_no_ray(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, started = small(), list[object]()
    with toy_executor(plan) as (toy, _):
        monkeypatch.setattr(
            "dimsweep.sweeper.run.executor.executor.RayExecutor",
            lambda setup: started.append(setup) or toy,
        )
        monkeypatch.setitem(EXECUTORS, "local", executor.RayExecutor)
        for n_started in (1, 1):
            run(plan, make_executor(plan.config, plan.simulated, plan.schema))
            assert len(started) == n_started


def test_a_ray_that_does_not_start_is_told() -> None:
    calls = list[str]()

    def dies(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because ...")

    ray = SimpleNamespace(init=dies, shutdown=lambda: calls.append("shutdown"))
    told = "did not start on this machine: The current node"
    with pytest.raises(DimsweepError, match=told), _report_start_errors(ray):
        ray.init()
    assert calls == ["shutdown"], "no daemon is left"


DIES = """
import os, time
from dimsweep.sweeper.run.executor import cluster
cluster._START_TIMEOUT = 0.5
with cluster._report_start_errors(None):
    {what}
"""


@pytest.mark.long
@pytest.mark.parametrize("what", ["os._exit(1)", "time.sleep(60)"])
def test_a_ray_that_ends_the_process_or_hangs_is_told(what: str) -> None:
    script = DIES.format(what=what)
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE, capture_output=True, text=True
    )
    assert found.returncode == 1
    assert found.stderr.startswith("error: executor: Ray did not start on this machine: a daemon")


def test_files_that_a_study_names_are_found_where_they_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative ones, prefixes of many, and those among a parameter's values."""
    here, node = tmp_path / "here", tmp_path / "node"
    for folder in (here, node):
        folder.mkdir()
    inputs = PACKAGE.parent / "studies" / "traces" / "astra_sim"
    for name in ("network.yml", "system.json"):
        (here / name).write_bytes((inputs / name).read_bytes())
    (here / "other.json").write_bytes(b"other")
    for rank in range(2):
        (here / f"w.{rank}.et").write_bytes(b"trace of %d" % rank)
    monkeypatch.chdir(here)
    words = ["profile=astra_sim", "workload.traces=w", "workload.system=system.json"]
    words += ["topology.file=network.yml"]
    config = compose(
        [*words, "+space.parameters={workload.system: {values: [system.json, other.json]}}"]
    ).config
    luggage = Luggage.pack([Cell(0, config, {})])

    monkeypatch.chdir(node)
    monkeypatch.setattr(places, "_copies", {})
    monkeypatch.setattr("tempfile.tempdir", str(node))
    luggage.unpack()
    assert places.find_file("other.json").read_bytes() == b"other"
    assert places.find_file("network.yml").read_bytes() == (inputs / "network.yml").read_bytes()
    assert [file.name for file in places.list_files("w")] == ["w.0.et", "w.1.et"]
    assert places.find_file("w").with_name("w.1.et").read_bytes() == b"trace of 1"
    luggage.unpack()  # another worker of the node


def test_the_code_that_travels_is_the_code_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = guest.sources(PACKAGE)
    code = guest.digest(files)
    assert guest._is_installed(code), "a node that has it already does not take another"
    assert not guest._is_installed("another")
    folder = guest.unpack(guest.pack(files), code)
    assert guest.digest(guest.sources(folder / guest.PACKAGE)) == code
    run = "import dimsweep.sweeper as s, dimsweep.engine as e; print(s.__file__, e.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", run], cwd=folder, capture_output=True, text=True, check=True
    )
    assert all(Path(each).is_relative_to(folder) for each in found.stdout.split())


def test_a_node_with_another_version_of_a_package_is_named() -> None:
    wanted = {**guest.versions(), "numba": "0.1"}
    with pytest.raises(RuntimeError, match=r"NODE \S+ has numba \S+, and the driver has 0\.1"):
        guest.Guest("code", [], wanted, [])


def test_memory_is_refused_beyond_the_limit_and_only_there() -> None:
    with pytest.raises(MemoryError), _memory_limit(50_000_000):
        np.ones(30_000_000)
    with _memory_limit(500_000_000):
        assert np.ones(30_000_000).sum() == 3e7
    assert np.ones(100_000_000, np.int8).sum() == 100_000_000
