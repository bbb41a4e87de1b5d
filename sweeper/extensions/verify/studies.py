"""dimsweep verify studies: every published study that has a page."""

import json
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import click

from dimsweep.sweeper.draw.canvas import reduced
from dimsweep.sweeper.extensions.verify.command import verifications
from dimsweep.sweeper.extensions.verify.files import published
from dimsweep.sweeper.extensions.verify.points import (
    Point,
    console_for,
    json_option,
    print_points,
    record,
)
from dimsweep.sweeper.extensions.verify.published import find_points
from dimsweep.sweeper.extensions.verify.side_by_side import side_by_side
from dimsweep.sweeper.terminal import plural, say, waiting


@click.command("studies")
@json_option
@click.option("--pictures", type=click.Path(path_type=Path), help="Draw each as NAME.png in here.")
def command(as_json: bool, pictures: Path | None) -> int:
    """Reproduce the published studies of docs/studies, point by point.

    As many run at once as there are cores.  The exit code is 1 unless every value is within its
    tolerance and every claim holds.
    """
    console, found = console_for(as_json), dict[str, Sequence[Point]]()
    what = {name: files.what for name, files in published().items()}
    what |= {name: each.what for name, each in verifications().items() if each.is_study}
    names = list(what)
    finding = side_by_side(partial(_found, drawn=pictures is not None), names)
    for name in names:
        say(f"\n{name}: {what[name]}", console, "bold")
        with waiting(f"simulating {name}", console):
            found[name], picture = next(finding)
        if not as_json:
            print_points(found[name], console)
        if pictures is not None and picture is not None:
            (pictures / f"{name}.png").write_bytes(picture)
    if as_json:
        records = [{"study": name, **record(point)} for name in names for point in found[name]]
        print(json.dumps(records, indent=1))
    points = [point for name in names for point in found[name]]
    bad = [point for point in points if not point.holds]
    n = plural(len(points), "point")
    say(f"\n{n} of {plural(len(found), 'study')}, {len(bad)} not as published", console)
    return int(bool(bad))


def _found(name: str, *, drawn: bool) -> tuple[Sequence[Point], bytes | None]:
    """A study's points, and its picture if one is wanted and it has one."""
    if name in (data := published()):
        found = find_points(data[name], "executor=inline")  # processes are side by side already
    else:
        found = import_module(verifications()[name].target.partition(":")[0]).find()
    return list(found.points), reduced(found.draw("png")) if drawn and found.draw else None
