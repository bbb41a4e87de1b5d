"""dimsweep measure: the script that measures a GPU for `dimsweep calibrate`."""

from pathlib import Path

import click


@click.command("measure")
@click.argument("file", type=click.Path(path_type=Path), default=Path("measuring.py"))
def command(file: Path) -> int:
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
        raise DimsweepError("this is a folder", where=str(file), hint="name the script's file")
    script = Path(__file__).parents[1] / "calibrate" / "measuring.py"
    write_file(file, "the script", script.read_bytes())
    click.echo(f"{file}: run it where the GPU is, python {file} FOLDER; it needs PyTorch only")
    return 0
