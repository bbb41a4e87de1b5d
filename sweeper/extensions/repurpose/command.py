"""The command dimsweep repurpose: restructure a trained network, and simulate serving it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.places import find_file

if TYPE_CHECKING:
    from rich.console import Console

    from dimsweep.engine import Cluster
    from dimsweep.engine.formats.weights import Samples
    from dimsweep.sweeper.config.compose import ComposedConfig
    from dimsweep.sweeper.config.schema import Config
    from dimsweep.sweeper.extensions.repurpose.compare import Served

TOLERANCE = 0.01  # of accuracy, below the trained network's, that counts as equal


@click.command("repurpose")
@click.argument("model", type=click.Path())
@overrides
@click.option("--workers", type=click.IntRange(1), metavar="K", help="Workers on one switch (4).")
@click.option("--samples", type=click.Path(), metavar="FILE", help="Inputs, labels, calibration.")
@click.option("--output", "-o", metavar="FILE", help="Write the restructured weights (npz).")
@click.option("--front", metavar="FILE", help="Try penalties, and draw accuracy against latency.")
def command(
    model: str,
    overrides: Sequence[str],
    workers: int | None,
    samples: str | None,
    output: str | None,
    front: str | None,
) -> int:
    """Restructure a trained network for workers, and simulate its inference.

    MODEL is .npz, .safetensors, .pt (a PyTorch state dict) or .onnx. Neurons or channels that need
    one another come to one worker, and weights not worth their traffic are pruned. All
    methods are compared; the one of workload.method is written. --samples is an npz file with
    inputs and labels to measure the accuracy, and calibration inputs to weigh errors with.
    Workers are Jetson Nanos (npu=jetson_nano) on Gigabit Ethernet (topology=edge_switch) unless the
    overrides name others.

    \b
    Usual keys:
      topology=NAME topology.shape=...       the workers' network, instead of --workers
      workload.penalty.traffic=NUMBER        weight of traffic (3)
      workload.penalty.weights=NUMBER        weight of the number of weights (0)
      workload.speed=[1,1,2,2]               relative speeds of unequal workers
      workload.input=[1,8,8]                 the shape of a sample, where the model does not say it
      workload.batch=N                       samples served together (32)
      fidelity=message                       simulate every message on every link

    \b
    Examples:
      dimsweep repurpose digits.npz --workers 4 --samples digits_samples.npz -o four.npz
      dimsweep repurpose digits.npz --samples digits_samples.npz 'topology.shape=Ring(2)_Switch(2)'
    """
    from rich.console import Console

    console = Console()
    composed = _composed(model, overrides, workers, samples)
    with composed.adding_sources():
        _repurpose(composed.config, workers, output, front, console)
    return 0


def _composed(
    model: str, overrides: Sequence[str], workers: int | None, samples: str | None
) -> "ComposedConfig":
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.config.overrides import quote

    words = ["workload=repurposed", f"workload.model={quote(model)}"]
    words += [f"workload.samples={quote(samples)}"] if samples is not None else []
    words += ["npu=jetson_nano", "topology=edge_switch"]
    words += [f"topology.shape=Switch({workers})"] if workers is not None else []
    return compose([*words, *overrides])


def _repurpose(
    config: "Config", workers: int | None, output: str | None, front: str | None, console: "Console"
) -> None:
    from dimsweep.engine import DimsweepError
    from dimsweep.engine.extensions.repurpose import METHODS
    from dimsweep.engine.formats.weights import read_samples
    from dimsweep.sweeper.extensions.repurpose.compare import serve
    from dimsweep.sweeper.extensions.repurpose.workload import Repurposed
    from dimsweep.sweeper.simulation.program import build_cluster
    from dimsweep.sweeper.terminal import showing_progress

    cluster, workload = build_cluster(config), config.workload
    if not isinstance(workload, Repurposed):
        raise DimsweepError(
            "only workload=repurposed, or none, can be given", where="workload", code="conflict"
        )
    if workers not in (None, cluster.topology.n_npus):
        what = f"{cluster.topology.n_npus} NPUs, and --workers {workers}"
        raise DimsweepError(what, where="topology", hint="leave one of them out", code="conflict")
    samples = None if workload.samples is None else read_samples(find_file(workload.samples))
    trained = workload.network()
    before = None if samples is None else trained.accuracy(samples.inputs, samples.labels)
    with showing_progress("restructuring", console):
        served = [serve(config, cluster, samples, method) for method in METHODS]
    _print(served, before, f"{trained.name} on {cluster.topology.name}", console)
    if output is not None:
        (chosen,) = (each for each in served if each.method == workload.method)
        _write(output, chosen, console)
    if front is not None:
        if samples is None or before is None:
            raise DimsweepError(
                "a front of accuracies needs samples", where="--front", code="missing"
            )
        with showing_progress("trying penalties", console):
            _front(front, config, cluster, samples, before, console)


def _print(
    served: "Iterable[Served]", before: float | None, title: str, console: "Console"
) -> None:
    from dimsweep.engine import units
    from dimsweep.sweeper.terminal import make_table, print_line

    trained = "" if before is None else f": {before:.2%} accurate as trained"
    print_line(f"{title}{trained}", console)
    head = ("method", "accuracy", "weights", "sent", "operations", "latency", "samples/s")
    rows = [
        (
            each.method,
            "" if each.accuracy is None else f"{each.accuracy:.2%}",
            f"{each.kept:.1%}",
            f"{each.traffic:,.0f} B",
            f"{each.operations:,}",
            units.format_time(round(each.latency * units.PICOSECONDS)),
            f"{each.throughput:,.0f}",
        )
        for each in served
    ]
    console.print(make_table(head, rows))


def _write(output: str, chosen: "Served", console: "Console") -> None:
    from dimsweep.engine.formats.weights import write_network
    from dimsweep.sweeper.terminal import print_line

    places = chosen.restructured.placement.places
    arrays = {f"worker_of_boundary_{number}": at for number, at in enumerate(places)}
    write_network(output, chosen.restructured.network, **arrays)
    print_line(
        f"weights: {output} ({chosen.method}; worker_of_boundary_0 has the inputs' workers)",
        console,
    )


def _front(
    file: str,
    config: "Config",
    cluster: "Cluster",
    samples: "Samples",
    before: float,
    console: "Console",
) -> None:
    from dimsweep.sweeper.draw.canvas import kind_of
    from dimsweep.sweeper.extensions.repurpose.compare import along, at_equal_accuracy, draw_front
    from dimsweep.sweeper.output import write_file
    from dimsweep.sweeper.terminal import print_line

    kind = kind_of(file, "picture")
    points = list(along(config, cluster, samples))
    best = at_equal_accuracy(points, before - TOLERANCE)
    naive = best["naive"].traffic
    print_line(f"least traffic within {TOLERANCE:.1%} of the trained accuracy:", console)
    _print(best.values(), None, "", console)
    ratios = [
        f"{naive / each.traffic:.1f} times less than naive by {name}"
        for name, each in best.items()
        if name != "naive" and each.traffic
    ]
    print_line("; ".join(ratios), console)
    title = f"Accuracy and latency on {cluster.topology.name}"
    write_file(file, "the picture", draw_front(points, title, kind))
    print_line(f"picture: {file}", console)
