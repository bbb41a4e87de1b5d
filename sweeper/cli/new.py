"""dimsweep new: a study's file to begin with."""

import re
from pathlib import Path

import click

_QUESTIONS = ("network", "split", "shape", "plan", "price")  # files of studies/new


@click.command("new")
@click.argument("name")
@click.option("--question", type=click.Choice(_QUESTIONS), default="split", help="What is asked.")
def command(name: str, question: str) -> int:
    """Write a study's file, with comments, from a question.

    The file is studies/NAME.yaml in the current folder; it runs as it is, and its comments say what
    to change. One that is there already is not touched.

    \b
    Questions:
      network   Which network should be built, and which plan should run on it?
      split     How should an NPU's bandwidth be split over the dimensions?
      shape     Which network is best at the same cost?
      plan      Which parallel plan is fastest on a network that is there?
      price     What does speed cost, and what does the next dollar save?

    \b
    Examples:
      dimsweep new my_split
      dimsweep new my_front --question price
    """
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.output import write_file
    from dimsweep.sweeper.places import installed

    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise DimsweepError(f"{name!r} cannot name a file", hint="letters, digits, _ and -")
    name = name.removesuffix(".yaml")
    file = Path("studies") / f"{name}.yaml"
    if file.exists():
        raise DimsweepError("there is such a study already", where=str(file), hint="another name")
    text = (installed("studies") / "new" / f"{question}.yaml").read_text(encoding="utf-8")
    file.parent.mkdir(exist_ok=True)
    write_file(file, "the study", text.replace("NAME", name).encode())
    click.echo(f"wrote {file}; dimsweep sweep {name} runs it")
    return 0
