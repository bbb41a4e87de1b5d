"""Plug-ins for studies of tests: a block, and a model of which a configuration has an object."""

from pathlib import Path

BLOCK = """\
from dimsweep.engine import Ring
from dimsweep.engine.topology import register

class Loop(Ring):
    name = "Loop"

register(Loop())
"""
MODEL = """\
from dataclasses import dataclass
from dimsweep.engine.workload.models import Gnmt
from dimsweep.sweeper.config.workload.model import FAMILIES

@dataclass(frozen=True)
class Gnu(Gnmt):
    horns: int = 2

FAMILIES["gnu"] = Gnu
"""
WORKLOAD = """\
defaults: [kind/model, _self_]
name: a gnu
parallel: {data: rest}
model: {family: gnu, layers: 2, hidden: 64, sequence: 4, horns: 1}
plan: {batch: 64}
"""


def plugged(folder: Path) -> list[str]:
    """Overrides of a study that needs both, whose files are written into a folder."""
    (folder / "conf/workload").mkdir(parents=True)
    (folder / "conf/workload/gnu.yaml").write_text(WORKLOAD)
    (folder / "loop.py").write_text(BLOCK)
    (folder / "gnu.py").write_text(MODEL)
    files = f"plugins=[{folder}/loop.py,{folder}/gnu.py]"
    return [files, "workload=gnu", "topology.shape=Loop(4)_Switch(2)"]
