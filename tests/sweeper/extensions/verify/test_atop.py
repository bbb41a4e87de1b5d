"""The verification of ATOP's space, of few networks."""

import json
from itertools import islice

import pytest
from click.testing import CliRunner

from dimsweep.sweeper.extensions.verify import atop
from dimsweep.sweeper.extensions.verify.atop_space import generate_networks


def test_their_networks_are_compared_with_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whose first ones have one layer: 8 switches of 32 ports are rails.
    monkeypatch.setattr(
        atop, "generate_networks", lambda limits: islice(generate_networks(limits), 0, 300, 15)
    )
    found = CliRunner().invoke(atop.command, ["--json"])
    points = {each["name"]: each for each in json.loads(found.stdout)}
    assert [*points] == [
        f"{name} against the front"
        for name in ("ROFT", "Rail-only", "HPN", "BCube(16,2)", "ZCube(16,2)")
    ]
    costs = [float(each["ours"].split(" MUSD")[0]) for each in points.values()]
    assert costs == [1.72, 1.23, 1.47, 0.868, 1.03]
    assert found.exit_code == int("none of the front" in found.stdout)
    assert "were timed, the rest excluded by formula" in found.stderr
