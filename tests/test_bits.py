"""The same picoseconds and bounds on every machine, Python and set of packages, bit for bit."""

import csv

from tests.support.bits import Bits, found
from tests.support.golden import golden_file


def test_recorded_runs_are_the_same_bits() -> None:
    with golden_file("bits.csv").open(newline="") as file:
        recorded = [
            Bits(c, s, int(time), bound) for c, s, time, bound in list(csv.reader(file))[1:]
        ]
    here = list(found())
    assert len(here) >= 200
    pairs = zip(here, recorded, strict=True)
    assert [(mine, theirs) for mine, theirs in pairs if mine != theirs] == []
