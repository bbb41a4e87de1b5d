"""dimsweep verify studies: every published study that has a page, one after another."""

import json
from importlib import import_module
from pathlib import Path

import click

from sweeper.draw.canvas import reduced
from sweeper.terminal import plural, say, waiting
from sweeper.verify import VERIFICATIONS
from sweeper.verify.points import Findings, Point, console_for, json_option, print_points


@click.command("studies")
@json_option
@click.option("--pictures", type=click.Path(path_type=Path), help="Draw each as NAME.png in here.")
def command(as_json: bool, pictures: Path | None) -> int:
    """Reproduce the published studies of docs/studies, point by point.

    The exit code is 1 unless every value is within its tolerance and every claim holds.
    """
    console, found = console_for(as_json), dict[str, Findings]()
    for name in (name for name, each in VERIFICATIONS.items() if each.is_study):
        say(f"\n{name}: {VERIFICATIONS[name].what}", console, "bold")
        with waiting(f"simulating {name}", console):
            found[name] = import_module(f"sweeper.verify.{name}").find()
        if not as_json:
            print_points(found[name].points, console)
        draw = found[name].draw
        if pictures is not None and draw is not None:
            (pictures / f"{name}.png").write_bytes(reduced(draw()))
    if as_json:
        records = [{"study": name, **p.record()} for name, own in found.items() for p in own.points]
        print(json.dumps(records, indent=1))
    points: list[Point] = [point for own in found.values() for point in own.points]
    bad = [point for point in points if not point.holds]
    n = plural(len(points), "point")
    say(f"\n{n} of {plural(len(found), 'study')}, {len(bad)} not as published", console)
    return int(bool(bad))
