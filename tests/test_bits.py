"""The same picoseconds and bounds on every machine, Python and set of packages."""

import csv

from tests.support.bits import Bits, found
from tests.support.golden import golden_file


def test_recorded_runs_come_out_again() -> None:
    with golden_file("bits.csv").open(newline="") as file:
        recorded = [
            Bits(row["cell"], row["split"], int(row["time_ps"]), float(row["bound"] or 0) or None)
            for row in csv.DictReader(file)
        ]
    here = list(found())
    assert len(here) >= 200
    pairs = zip(here, recorded, strict=True)
    assert [(mine, theirs) for mine, theirs in pairs if not mine.agrees(theirs)] == []
