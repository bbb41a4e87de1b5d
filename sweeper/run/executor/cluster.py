"""Start or join a Ray cluster, and watch its nodes."""

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.study import Executor as ExecutorConfig
from dimsweep.sweeper.run.executor.ray_inside import reload_environment, resolve_address

_CHECK_INTERVAL = 1.0  # seconds between two checks of the nodes
_CONNECT_TIMEOUT = 2.0  # seconds to connect to a node's port
_MAX_MISSED_CHECKS = 3  # checks in a row without an answer, after which a node is lost
_START_TIMEOUT = 180.0  # seconds; Ray itself gives up after 30, where it notices
_HEAD_RESTART_TIME = 30.0  # seconds; Ray itself gives up after 60, and ends this process
_TOKEN = secrets.token_hex(32)  # of the clusters that this process starts; Ray keeps the first
_QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or Ray warns: workers ask for no accelerator
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # or Ray prints its daemons' logs when one of them dies
}
_PRIVATE = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then listens on the loopback interface only
}


class LostClusterError(DimsweepError):
    """Error of a Ray cluster that was lost, so that no more trials can be simulated."""

    code = "inaccessible"


@dataclass(frozen=True)
class Node:
    """A machine of a Ray cluster."""

    id: str
    address: str
    port: int
    cpus: int


class Cluster:
    """A connection to a Ray cluster.

    ``is_ours`` if it was started for this sweep and ends with it.
    """

    def __init__(self, ray: Any, *, is_ours: bool, stack: ExitStack) -> None:
        self.ray, self.is_ours, self._stack = ray, is_ours, stack
        context = ray.get_runtime_context()
        self._node_id, self.head = context.get_node_id(), context.gcs_address
        self._watch = _Watch(ray, self.head)
        self._seen = -1
        self._known: dict[str, Node] = {}

    @property
    def cpus(self) -> int:
        """Number of CPUs of the nodes that answer."""
        return sum(node.cpus for node in self._known.values())

    def find_lost_nodes(self) -> list[Node] | None:
        """Return the nodes lost since the last call; None if no node was lost or added.

        Raises :class:`LostClusterError` if the head, or the node of this process, is lost.
        """
        watch = self._watch
        if watch.head_silence > (
            _CHECK_INTERVAL * _MAX_MISSED_CHECKS if self.is_ours else _HEAD_RESTART_TIME
        ):
            raise LostClusterError(f"the head of the Ray cluster at {self.head} does not answer")
        if watch.changes == self._seen:
            return None
        self._seen, now = watch.changes, watch.nodes
        lost = [node for node in self._known.values() if node.id not in now]
        self._known = now
        if any(node.id == self._node_id for node in lost):
            raise LostClusterError("the Ray node of this machine (its raylet) has died")
        return lost

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Return a context that turns errors about dead daemons into :class:`LostClusterError`."""
        try:
            yield
        except (OSError, self.ray.exceptions.RaySystemError) as error:
            raise LostClusterError("the Ray node of this machine (its raylet) has died") from error

    def close(self) -> None:
        """Leave the cluster, and end it if it is ours."""
        self._watch.stop()
        try:
            self.ray.shutdown()
        finally:
            self._stack.close()


_MAX_ACTORS_PER_CPU = 4  # more gain nothing: one keeps a CPU busy


def check_actors(config: ExecutorConfig) -> None:
    """Raise :class:`DimsweepError` for less than one actor, or more than useful on this machine.

    Each actor keeps a CPU busy; its start takes seconds and hundreds of megabytes.
    """
    actors, cpus = config.actors, os.cpu_count() or 1
    if actors is not None and actors < 1:
        raise DimsweepError(
            f"executor.actors is {actors}; it must be at least 1",
            where="executor.actors",
            code="out-of-range",
        )
    if actors is not None and config.mode == "local" and actors > _MAX_ACTORS_PER_CPU * cpus:
        raise DimsweepError(
            f"{actors} actors for {cpus} CPUs; the limit is {_MAX_ACTORS_PER_CPU} per CPU",
            where="executor.actors",
            hint=f"executor.actors={cpus}, or leave it out for one actor per CPU",
            code="out-of-range",
        )


def connect(config: ExecutorConfig) -> Cluster:
    """Start Ray on this machine, or join the cluster of ``executor.address``.

    A local Ray listens on the loopback interface only and requires a token. The token is random
    unless RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH gives one. To join a cluster, Ray reads tokens as
    it documents. Raises :class:`DimsweepError` if no cluster answers, or if it refuses the token.
    """
    is_ours = config.mode != "address"
    with ExitStack() as stack:
        stack.enter_context(_environment(_QUIET | (_PRIVATE if is_ours else {})))
        if is_ours and not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
            stack.enter_context(_environment({"RAY_AUTH_TOKEN": _TOKEN}))
        stack.enter_context(_silence_stderr())
        import ray  # half a second; it reads its environment when it is imported

        reload_environment(ray)

        with _keep_sigterm():
            if not is_ours:
                _join(ray, config.address or "auto")
                return Cluster(ray, is_ours=False, stack=stack.pop_all())
            with _report_start_errors(ray):
                wanted = config.actors or os.cpu_count() or 1
                ray.init("local", num_cpus=wanted, include_dashboard=False, **_options())
                return Cluster(ray, is_ours=True, stack=stack.pop_all())
    raise AssertionError  # the stack swallows no exception


def _options() -> dict[str, Any]:
    return {"log_to_driver": False, "logging_level": logging.CRITICAL}


@contextmanager
def _report_start_errors(ray: Any) -> Iterator[None]:
    """Return a context that reports a failed start of Ray as one error.

    If a daemon dies, Ray may raise, wait forever in native code, or end this process silently.
    """
    why = f"a daemon of Ray died, or did not answer within {_START_TIMEOUT:.0f} s"
    limit = threading.Timer(_START_TIMEOUT, os._exit, (1,))  # nothing else ends native code
    limit.daemon = True
    limit.start()
    try:
        with _print_if_killed(f"error: {_start_error(why)}"):
            yield
    except Exception as error:  # many kinds, Exception itself among them
        with suppress(Exception):
            ray.shutdown()  # ends the daemons that live
        if isinstance(error, (TypeError, AttributeError, NameError, ImportError)):
            raise  # no machine is to blame for a defect
        raise _start_error(
            (str(error).strip().splitlines() or [type(error).__name__])[0]
        ) from error
    finally:
        limit.cancel()


def _start_error(why: str) -> DimsweepError:
    return DimsweepError(
        f"Ray did not start on this machine: {why}",
        where="executor",
        hint="read its logs in /tmp/ray/session_latest/logs; executor=inline needs no Ray",
        code="inaccessible",
    )


@contextmanager
def _print_if_killed(text: str) -> Iterator[None]:
    """Return a context in which ``text`` is printed, by a shell, if this process is killed."""
    waits = ["sh", "-c", 'read word || echo "$1" >&2', "sh", text]
    try:
        said = sys.stderr.fileno()
    except (OSError, ValueError):  # a notebook's or a test's has no descriptor
        said = subprocess.DEVNULL
    with subprocess.Popen(
        waits, stdin=subprocess.PIPE, stderr=said, start_new_session=True
    ) as shell:
        try:
            yield
        finally:
            shell.communicate(b"all is well\n")


def _join(ray: Any, address: str) -> None:
    if "://" in address:
        raise DimsweepError(
            f"invalid address {address!r}",
            where="executor.address",
            hint="give HOST:PORT of the head, on a machine that is a node of the cluster; from "
            "outside, `ray job submit` runs the sweep on the cluster",
            code="bad-syntax",
        )
    try:
        address = resolve_address(ray, address)
        host, _, port = address.rpartition(":")
        if port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        with _environment({"RAY_gcs_server_port_wait_time_s": "5"}):
            ray.init(address, **_options())
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise _join_error(address, error) from error


def _join_error(address: str, error: BaseException) -> DimsweepError:
    """Return the error for a cluster that cannot be joined, from the causes of Ray's error."""
    texts = list[str]()
    cause: BaseException | None = error
    while cause is not None:
        texts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    if any("AuthenticationError" in text for text in texts):
        mode = os.environ.get("RAY_AUTH_MODE") or "not set"
        return DimsweepError(
            f"the Ray cluster at {address!r} refused this process's token, or no token was given "
            f"(RAY_AUTH_MODE is {mode})",
            where="executor.address",
            hint="set RAY_AUTH_MODE=token, and give the cluster's token in RAY_AUTH_TOKEN, in the "
            "file RAY_AUTH_TOKEN_PATH or in ~/.ray/auth_token",
            code="inaccessible",
        )
    if isinstance(error, OSError):
        return DimsweepError(
            f"no Ray cluster answers at {address!r}: {error}",
            where="executor.address",
            hint="start one with `ray start --head`, or name its head with "
            "executor.address=HOST:PORT; `auto` is RAY_ADDRESS, or the last cluster started here",
            code="inaccessible",
        )
    first = str(error).strip().splitlines() or [type(error).__name__]
    return DimsweepError(
        f"the Ray cluster at {address!r} cannot be joined: {first[0]}",
        where="executor.address",
        code="inaccessible",
    )


class _Watch(threading.Thread):
    """A thread that tries to connect to each node's daemon every second.

    Ray itself needs half a minute or longer to notice a lost machine.
    """

    def __init__(self, ray: Any, head: str) -> None:
        super().__init__(name="dimsweep-nodes", daemon=True)
        self._ray, self._head = ray, head
        self._stop_now = threading.Event()
        self._missed: dict[str, int] = {}
        self._answered = time.monotonic()
        self.nodes: dict[str, Node] = {}  # replaced, never changed: other threads read it
        self.changes = 0
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="dimsweep-look")
        self._listed: list[Node] = []
        self._check_nodes()
        self.start()

    @property
    def head_silence(self) -> float:
        """Seconds since the head node last answered."""
        return time.monotonic() - self._answered

    def run(self) -> None:
        while not self._stop_now.wait(_CHECK_INTERVAL):
            with suppress(Exception):  # of a cluster that ends: the next check reports it
                self._check_nodes()

    def stop(self) -> None:
        self._stop_now.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.join(timeout=2 * _CONNECT_TIMEOUT)

    def _check_nodes(self) -> None:
        host, _, port = self._head.rpartition(":")
        if _is_reachable(host.strip("[]"), int(port)):
            self._answered = time.monotonic()
            self._listed = [_parse_node(each) for each in self._ray.nodes() if each["Alive"]]
        asked = self._pool.map(lambda node: _is_reachable(node.address, node.port), self._listed)
        for node, answers in zip(self._listed, asked, strict=True):
            self._missed[node.id] = 0 if answers else self._missed.get(node.id, 0) + 1
        alive = {
            node.id: node for node in self._listed if self._missed[node.id] < _MAX_MISSED_CHECKS
        }
        if alive != self.nodes:
            self.nodes = alive
            self.changes += 1


def _parse_node(entry: Mapping[str, Any]) -> Node:
    return Node(
        entry["NodeID"],
        entry["NodeManagerAddress"],
        int(entry["NodeManagerPort"]),
        int(entry["Resources"].get("CPU", 0)),
    )


def _is_reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _keep_sigterm() -> Iterator[None]:
    """Return a context that keeps this process's handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Return a context that discards the output of Ray's native code to file descriptor 2."""
    python, kept = sys.stderr, os.dup(2)
    with suppress(OSError, ValueError):  # a notebook's or a test's has no descriptor
        if sys.stderr.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        sys.stderr = python
