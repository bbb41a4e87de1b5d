"""The command dimsweep astra: ASTRA-sim's command line, its input files, and cycle counts."""

import json
import time
from pathlib import Path
from typing import Any

import click

from dimsweep.engine import is_compiled
from dimsweep.engine.extensions.astra_sim import Cycles, simulate_astra
from dimsweep.engine.formats.astra_sim import (
    Options,
    read_inputs,
    read_workload,
    with_noted_groups,
)
from dimsweep.sweeper.output import write_file

_IGNORED = ("comm-scale", "compute-scale", "logging-configuration", "num-passes")
_EMPTY = ("", "empty")  # what ASTRA-sim calls no file


def _ignored(command: Any) -> Any:
    """Add ASTRA-sim's options that have no effect here to a command."""
    for name in _IGNORED:
        command = click.option(f"--{name}", hidden=True, expose_value=False)(command)
    return command


@click.command("astra")
@click.option("--workload-configuration", metavar="PREFIX", required=True, help="Chakra traces.")
@click.option("--system-configuration", metavar="FILE", required=True, help="JSON.")
@click.option("--network-configuration", metavar="FILE", required=True, help="YAML.")
@click.option("--remote-memory-configuration", metavar="FILE", default="", help="JSON.")
@click.option("--comm-group-configuration", metavar="FILE", default="", help="JSON.")
@click.option(
    "--num-queues-per-dim", type=click.IntRange(min=1), default=1, help="Queues a dimension."
)
@click.option(
    "--injection-scale", type=click.FloatRange(min=0), default=1.0, help="Scales endpoint-delay."
)
@click.option("--rendezvous-protocol", type=bool, default=False, help="Sends wait for receives.")
@click.option(
    "--congestion",
    type=click.Choice(["unaware", "aware"]),
    default="unaware",
    help="Which of ASTRA-sim's two analytical network models is used.",
)
@click.option("--fold", type=bool, default=True, help="Simulate alike ranks once.")
@click.option("--json", "target", metavar="FILE", help="Write the results for programs, too.")
@_ignored
def command(
    workload_configuration: str,
    system_configuration: str,
    network_configuration: str,
    remote_memory_configuration: str,
    comm_group_configuration: str,
    num_queues_per_dim: int,
    injection_scale: float,
    rendezvous_protocol: bool,
    congestion: str,
    fold: bool,
    target: str | None,
) -> int:
    """Run ASTRA-sim 2.0's input files to the same cycles.

    The options, and the lines printed for each rank, are ASTRA-sim's.
    `dimsweep verify astra_sim` compares recorded runs.

    \b
    Example:
      dimsweep astra --workload-configuration=PREFIX --system-configuration=system.json \\
          --network-configuration=network.yml
    """
    if fold and not is_compiled():
        click.echo("compiling the kernel (once for an installation, about a minute)", err=True)
    started = time.monotonic()
    inputs = read_inputs(
        Path(system_configuration),
        Path(network_configuration),
        _file(remote_memory_configuration),
        _file(comm_group_configuration),
        Options(
            queues_per_dim=num_queues_per_dim,
            injection_scale=injection_scale,
            rendezvous=rendezvous_protocol,
            aware=congestion == "aware",
        ),
    )
    traces = read_workload(workload_configuration, inputs.network.n_npus)
    inputs, traces = with_noted_groups(inputs, traces)
    read = time.monotonic()
    result = simulate_astra(inputs, traces, folded=fold)
    _print(result, read - started, time.monotonic() - read)
    if target is not None:
        write_file(target, "the results", json.dumps(_for_programs(result)).encode())
    return 0


def _file(path: str) -> Path | None:
    return None if path in _EMPTY else Path(path)


def _print(result: Cycles, reading: float, simulating: float) -> None:
    """Print the lines that ASTRA-sim prints for every rank, then timings of dimsweep.

    ``reading`` and ``simulating`` are in seconds.
    """
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
        f"{n:,} ranks, {result.n_kinds:,} simulated ({result.method}); the last one finished after "
        f"{max(result.cycles):,} cycles (ns)"
    )
    lines.append(f"read in {reading:.3f} s, simulated in {simulating:.3f} s")
    print("\n".join(lines))


def _for_programs(result: Cycles) -> dict[str, Any]:
    return {
        "cycles": result.cycles,
        "exposed": result.exposed,
        "gpu_time": result.gpu,
        "comm_time": result.communication,
        "ranks_simulated": result.n_kinds,
        "how": result.method,
    }
