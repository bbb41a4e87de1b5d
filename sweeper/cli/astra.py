"""dimsweep astra: ASTRA-sim's own command line, its files, and its cycles."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from engine import DimsweepError
from engine.formats.astra_sim import Options, read_inputs, read_workload
from engine.replicas.astra_sim import Cycles, is_astra_compiled, simulate_astra

_IGNORED = ("comm-scale", "compute-scale", "logging-configuration", "num-passes")
_EMPTY = ("", "empty")  # what ASTRA-sim calls no file


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DimsweepError(message, where="dimsweep astra", hint="dimsweep astra --help")


def parser() -> argparse.ArgumentParser:
    """ASTRA-sim's options, and ours."""
    options = _Parser(
        prog="dimsweep astra",
        description="Run ASTRA-sim 2.0's input files unchanged, to the same cycles.",
        allow_abbrev=False,
    )
    options.add_argument("--workload-configuration", metavar="PREFIX")
    options.add_argument("--system-configuration", metavar="FILE")
    options.add_argument("--network-configuration", metavar="FILE")
    options.add_argument("--remote-memory-configuration", metavar="FILE", default="")
    options.add_argument("--comm-group-configuration", metavar="FILE", default="")
    options.add_argument("--num-queues-per-dim", type=int, default=1, metavar="N")
    options.add_argument("--injection-scale", type=float, default=1.0, metavar="X")
    options.add_argument("--rendezvous-protocol", default="false", metavar="true|false")
    for name in _IGNORED:
        options.add_argument(f"--{name}", default=None, help=argparse.SUPPRESS)
    options.add_argument("--congestion", choices=("unaware", "aware"), default="unaware")
    options.add_argument(
        "--fold", choices=("true", "false"), default="true", help="simulate alike ranks once"
    )
    options.add_argument("--json", metavar="FILE", help="also write the results for programs")
    options.add_argument(
        "--check",
        nargs="+",
        metavar="DIR",
        help="simulate every recorded case below DIR and compare the cycles",
    )
    return options


def astra(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    given = parser().parse_args(list(words))
    if given.fold == "true" and not is_astra_compiled():
        print("compiling the kernel (once for an installation, ten seconds)", file=sys.stderr)
    if given.check:
        from sweeper.verify.astra import check

        return check([Path(folder) for folder in given.check], folded=given.fold == "true")
    missing = [
        name
        for name in ("workload", "system", "network")
        if getattr(given, f"{name}_configuration") is None
    ]
    if missing:
        raise DimsweepError(
            f"--{missing[0]}-configuration is missing",
            where="dimsweep astra",
            hint="dimsweep astra --help",
        )
    started = time.monotonic()
    inputs = read_inputs(
        Path(given.system_configuration),
        Path(given.network_configuration),
        _file(given.remote_memory_configuration),
        _file(given.comm_group_configuration),
        _options(given),
    )
    traces = read_workload(given.workload_configuration, inputs.network.n_npus)
    read = time.monotonic()
    result = simulate_astra(inputs, traces, folded=given.fold == "true")
    _print(result, read - started, time.monotonic() - read)
    if given.json:
        _write(Path(given.json), result)
    return 0


def _options(given: argparse.Namespace) -> Options:
    if given.rendezvous_protocol not in ("true", "false"):
        raise DimsweepError(
            f"{given.rendezvous_protocol!r} is neither true nor false",
            where="--rendezvous-protocol",
        )
    if given.num_queues_per_dim < 1:
        raise DimsweepError(
            f"{given.num_queues_per_dim} queues; it takes 1 or more", where="--num-queues-per-dim"
        )
    if not given.injection_scale >= 0:
        raise DimsweepError(f"{given.injection_scale} is no scale", where="--injection-scale")
    return Options(
        queues_per_dim=given.num_queues_per_dim,
        injection_scale=given.injection_scale,
        rendezvous=given.rendezvous_protocol == "true",
        aware=given.congestion == "aware",
    )


def _file(path: str) -> Path | None:
    return None if path in _EMPTY else Path(path)


def _print(result: Cycles, reading: float, simulating: float) -> None:
    """What ASTRA-sim prints of every rank, then ours."""
    lines = []
    for rank, (cycles, exposed) in enumerate(zip(result.cycles, result.exposed, strict=True)):
        lines.append(
            f"[workload] [info] sys[{rank}] finished, {cycles} cycles, "
            f"exposed communication {exposed} cycles."
        )
        lines.append(f"[statistics] [info] sys[{rank}], Wall time: {cycles}")
        lines.append(f"[statistics] [info] sys[{rank}], GPU time: {result.gpu[rank]}")
        lines.append(f"[statistics] [info] sys[{rank}], Comm time: {result.communication[rank]}")
    n = len(result.cycles)
    lines.append(
        f"{n:,} ranks, {result.n_kinds:,} simulated ({result.how}); the last one finished after "
        f"{max(result.cycles):,} cycles (ns)"
    )
    lines.append(f"read in {reading:.3f} s, simulated in {simulating:.3f} s")
    print("\n".join(lines))


def _write(file: Path, result: Cycles) -> None:
    content = {
        "cycles": result.cycles,
        "exposed": result.exposed,
        "gpu_time": result.gpu,
        "comm_time": result.communication,
        "ranks_simulated": result.n_kinds,
        "how": result.how,
    }
    try:
        file.write_text(json.dumps(content))
    except OSError as error:
        raise DimsweepError(
            f"the results cannot be written: {error.strerror}", where=str(file)
        ) from error
