"""A setting is one field of an engine's dataclass: keys, errors, completion, tables follow."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dimsweep.engine.errors import Code
from dimsweep.engine.settings import list_settings
from dimsweep.sweeper.config import reference
from dimsweep.sweeper.config.complete import _choices
from dimsweep.sweeper.part import mirror
from tests.support.refused import refused

# Each dataclass of which a part has the settings: its door, the part's key, and an override.
PARTS = {
    "ParallelPlan": ("dimsweep.engine.workload.plan", "workload.plan", "workload=gpt3_13b"),
    "PacketModel": ("dimsweep.engine", "network.packets", "fidelity=packet"),
    "NetworkModel": ("dimsweep.engine", "network", "fidelity=message"),
    "CollectiveModel": ("dimsweep.engine", "collective", "collective=streamed"),
    "Npu": ("dimsweep.engine", "npu", "npu=h200"),
    "Reliability": ("dimsweep.engine.reliability", "reliability", "reliability=llama3"),
    "Checkpoint": ("dimsweep.engine.reliability", "reliability.checkpoint", "reliability=llama3"),
}
MORE = '''
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from {door} import {name}
from dimsweep.engine.settings import Bounds
from dimsweep.engine.units import BYTES


class Way(StrEnum):
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True)
class More({name}):
    """One with three settings more."""

    #: Waits at most,
    #: in steps.
    waits: Annotated[int, Bounds(at_least=2)] = 3
    way: Way = Way.SHORT
    room: Annotated[float, BYTES] | None = None
'''


EVERYWHERE = """
import importlib, json, sys
from pathlib import Path

folder, (parts, more) = sys.argv[1], json.loads(sys.argv[2])
sys.path.insert(0, folder)
for name, (door, place, override) in parts.items():
    Path(folder, f"more_{name}.py").write_text(more.format(door=door, name=name))
    further = importlib.import_module(f"more_{name}").More
    setattr(importlib.import_module(door), name, further)

from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.complete import complete_override
from dimsweep.sweeper.config.reference import key_table

row = "| `waits` | whole number, 2 or more | `3` | Waits at most, in steps. |"
for name, (door, place, override) in parts.items():
    assert main(["show", override, f"{place}.waits=7", f"{place}.room=3 MB"]) == 0
    assert complete_override([override], f"{place}.wai") == [f"{place}.waits="]
    assert complete_override([override], f"{place}.way=l") == [f"{place}.way=long"]
    assert row in key_table(place)
    assert main(["show", override, f"{place}.waits=1"]) == 1
"""


def more_of(name: str, folder: Path) -> Any:
    """Return the dataclass of the name with further settings, from a file."""
    file = folder / f"more_{name.lower()}.py"
    file.write_text(MORE.format(door=PARTS[name][0], name=name))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module.More


@pytest.mark.parametrize("name", PARTS)
def test_a_further_field_is_a_key_with_its_error_completion_and_row(
    name: str, tmp_path: Path
) -> None:
    given = {"without": [each.name for each in list_settings(more_of(name, tmp_path))][:-3]}
    part = mirror(more_of(name, tmp_path), **given)
    assert part.defaults() == {"waits": 3, "way": "short", "room": None}
    made = part.from_plain({"way": "long", "room": "2 MB"})
    assert (made.waits, made.room) == (3, 2e6)
    assert made.plain() == {"waits": 3, "way": "long", "room": "2 MB"}
    wrong: list[tuple[dict[str, object], Code, str]] = [
        ({"waits": 1}, "out-of-range", "2 or more"),
        ({"waits": "1"}, "wrong-type", "'1'"),
        ({"way": "lomg"}, "unknown-name", "did you mean 'long'?"),
        ({"room": 5}, "wrong-type", "5"),
        ({"wait": 5}, "unknown-key", "did you mean 'waits'?"),
    ]
    for keys, code, data in wrong:
        with refused(*keys, code, data):
            part.from_plain(keys)
    assert list(_choices(reference.key_type(part, "way"))) == ["short", "long"]
    assert part.meanings() == {"waits": "Waits at most, in steps."}


@pytest.mark.long
def test_a_further_field_of_the_engine_is_everywhere(tmp_path: Path) -> None:
    """In a Python whose engine has the fields before the configuration is read."""
    command = [sys.executable, "-c", EVERYWHERE, str(tmp_path), json.dumps([PARTS, MORE])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("waits: 7") == done.stdout.count("room: 3 MB") == len(PARTS)
    assert done.stderr.count("1; it must be 2 or more") == len(PARTS)
    for _, place, _ in PARTS.values():
        assert f"{place}.waits" in done.stderr


def test_every_key_of_a_mirrored_part_is_explained() -> None:
    for name, (_, place, _) in PARTS.items():
        part = reference.find_part(place)
        assert name in {record.__name__ for record in part.MIRRORS}
        assert set(part.model_fields) == set(part.meanings())


def test_a_place_without_keys_is_refused() -> None:
    with refused("workload.plam", "unknown-key", "'plam'"):
        reference.find_part("workload.plam")
