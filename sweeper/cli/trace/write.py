"""dimsweep trace write: the workload of a configuration, as traces."""

from collections.abc import Sequence
from pathlib import Path

import click

from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.cli.trace.keys import write_keys
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster, build_workload


@click.command("write")
@click.argument("target")
@overrides
@click.option("--keys", default="", metavar="KEY,...", help="Note these in TARGET.keys.json.")
def command(target: str, overrides: Sequence[str], keys: str) -> int:
    """Write the workload of a configuration as traces.

    TARGET is a prefix, for a file TARGET.<rank>.et for each rank; or it ends in .et, for one file
    of a workload whose ranks are all alike. A simulation of the traces takes as long as one of the
    workload itself. --keys notes what the job was asked for, which `dimsweep trace learn` needs.

    \b
    Examples:
      dimsweep trace write w workload=gpt3_libra topology=libra_3d
      dimsweep trace write one.et workload=resnet50_libra
    """
    print(write_workload(target, overrides, keys.split(",") if keys else ()))
    return 0


def write_workload(target: str, overrides: Sequence[str], keys: Sequence[str] = ()) -> str:
    """Write the traces of a configuration's workload; returns what was written."""
    composed = compose(overrides)
    config = composed.config
    with composed.blaming():
        cluster = build_cluster(config)
        workload = build_workload(config, cluster)
    if keys:
        write_keys(target, config, keys)
    groups = write_chakra_workload(workload, cluster, Path(target))
    if target.endswith(".et"):
        return f"one trace for all {cluster.topology.n_npus:,} ranks: {target}"
    beside = f", groups: {groups}" if groups else ""
    return f"{cluster.topology.n_npus:,} traces: {target}.<rank>.et{beside}"
