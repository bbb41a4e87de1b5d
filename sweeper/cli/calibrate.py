"""The commands dimsweep measure and calibrate: fit a cluster's parameters to measurements."""

from collections.abc import Sequence
from pathlib import Path

import click


@click.command("calibrate")
@click.argument("arguments", nargs=-1, required=True, metavar="FILE... [KEY=VALUE]...")
@click.option("--name", default="mine", show_default=True, help="What cluster= then calls it.")
@click.option("--force", is_flag=True, help="Replace the file of that name.")
def calibrate_command(arguments: Sequence[str], name: str, force: bool) -> int:
    """Fit a cluster's few physical parameters to your own measurements.

    A FILE is a table of iterations (CSV: a column seconds, tokens/s/GPU, TFLOP/s/GPU or MFU, and
    keys such as tp, pp, gpus or workload.plan.micro_batch), a log of Megatron-LM or torchtitan,
    the output of nccl-tests, a profile of PyTorch's (Kineto), a log of nvidia-smi in CSV, or a
    folder that `dimsweep measure` wrote. KEY=VALUE say the machine that it starts from (cluster=,
    nodes=), and the workload of the iterations.

    It prints what each measurement says, and which ones the others do not explain, and writes
    conf/cluster/mine.yaml, which cluster=mine uses.

    \b
    Examples:
      dimsweep calibrate runs.csv cluster=dgx_h100 workload=llama3_8b
      dimsweep calibrate runs.csv nccl.log cluster=dgx_a100 nodes=4 --name lab
    """
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.calibrate.calibration import find_cluster_file

    overrides = [word for word in arguments if "=" in word and not Path(word).exists()]
    paths = [Path(word) for word in arguments if word not in overrides]
    if not paths:
        raise click.UsageError("nothing to calibrate with: name a file of measurements")
    if len({path.resolve() for path in paths}) < len(paths):
        raise DimsweepError(
            "a file of measurements is named twice, and would count twice", code="duplicate"
        )
    file = find_cluster_file(name)
    if file.exists() and not force:
        hint = f"--force replaces it, --name {name}_2 keeps both"
        raise DimsweepError("the file exists", where=str(file), hint=hint, code="conflict")
    _calibrate(paths, overrides, file)
    return 0


def _calibrate(paths: Sequence[Path], overrides: Sequence[str], file: Path) -> None:
    """Read the measurements, fit the cluster, print the result, and write the cluster's file."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.calibrate.calibration import (
        calibrate,
        format_cluster_file,
        print_calibration,
    )
    from dimsweep.sweeper.calibrate.observations import compute_prior_widths, read_observations
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.output import write_file
    from dimsweep.sweeper.terminal import print_line, print_warnings, showing_progress, wide_console

    console = wide_console(160)
    composed = compose(overrides)
    if composed.choices.get("cluster", "none") == "none":
        raise DimsweepError(
            "no machine is named",
            where="cluster",
            hint="give a machine such as cluster=dgx_h100, or the most similar one",
            code="missing",
        )
    config = composed.config
    found = [each for path in paths for each in read_observations(path, overrides, config)]
    print_warnings(dict.fromkeys(each.remark for each in found if each.remark), console)
    with showing_progress("simulating what was measured", console):
        done = calibrate(config, found, compute_prior_widths(config))
    print_calibration(done, console)
    text = format_cluster_file(done, composed.choices)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, "the cluster", text.encode())
    print_line(f"{file}: use it as cluster={file.stem}", console)


@click.command("measure")
@click.argument("file", type=click.Path(path_type=Path), default=Path("measuring.py"))
def measure_command(file: Path) -> int:
    """Write a script that measures a GPU, or a node, for `dimsweep calibrate`.

    The script needs nothing but PyTorch, so it runs where dimsweep is not installed, in some
    minutes. It writes one folder: single kernels, training steps of cut Llamas with profiles,
    collectives if there are several GPUs, and the power.

    \b
    Example:
      dimsweep measure measuring.py
      torchrun --nproc-per-node=8 measuring.py measured
      dimsweep calibrate measured cluster=dgx_h100
    """
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.output import write_file

    if file.is_dir():
        raise DimsweepError(
            "a folder, not a file",
            where=str(file),
            hint="name the script's file",
            code="inaccessible",
        )
    script = Path(__file__).parents[1] / "calibrate" / "measuring.py"
    write_file(file, "the script", script.read_bytes())
    click.echo(f"{file}: run it where the GPU is, python {file} FOLDER; it needs PyTorch only")
    return 0
