"""The file of a calibrated cluster, an option of the group ``cluster``."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.calibrate.calibrated import stored
from dimsweep.sweeper.calibrate.calibration import Calibration

_GROUPS = ("topology", "npu", "memory", "network", "cost", "collective")


def file_of(name: str) -> Path:
    """Where the cluster ``name`` lies in the working folder; raises :class:`DimsweepError` for what
    is no name of an option."""
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise DimsweepError(f"{name!r} is no name of a cluster", hint="such as mine")
    return Path("conf", "cluster", f"{name}.yaml")


def text_of(found: Calibration, choices: Mapping[str, str]) -> str:
    """The file's text: the parts that were calibrated, by ``choices`` of their groups, and the
    keys that were."""
    tree: dict[str, Any] = {
        "defaults": [{f"override /{group}": choices[group]} for group in _GROUPS]
    }
    values = found.values()
    for key, value in values.items():
        group, _, name = key.partition(".")
        tree.setdefault(group, {})[name] = value
    tree["calibration"] = stored(
        found.parameters,
        found.posterior,
        error=found.error,
        measured=len(found.observations),
        gpus=found.gpus,
        values=values,
    )
    before, after = found.mean_errors
    head = (
        "# @package _global_\n"
        f"# Calibrated by {len(found.observations)} measurements (`dimsweep calibrate`): mean "
        f"error {before:.1%} before,\n# {after:.1%} of each predicted from the others.\n"
    )
    return head + yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=100)
