"""Plans of rows whose tables print none, from their sources' scripts (``scripts.yaml``)."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).with_name("scripts.yaml")
_SLICES = re.compile(r"(\d+)x v5[ep]-\d+")


def filled(row: Mapping[str, str]) -> dict[str, str]:
    """The row with the columns that its source's script says.

    A row that is ``complete``, or that no script is known of, stays as it is; of one that its
    script says not to be simulated ``complete`` says why.
    """
    found = dict(row)
    script = next((each for each in _scripts() if _is_of(each, row)), None)
    if script is None or found["complete"].startswith("yes"):
        return found
    if why := script.get("left_out"):
        return found | {"complete": f"left out: {why}"}
    columns = {name: str(value) for name, value in script["columns"].items()}
    chips, tensor = int(found["gpus"]), int(columns["tp"])
    said = _SLICES.search(found["note"])
    slices = int(said[1]) if said else 1
    if slices > 1 and "/v5p/" in found["source"]:
        why = "the network between slices of TPU v5p is not published"
        return found | {"complete": f"left out: {why}"}
    return (
        found
        | columns
        | {
            "complete": "yes",
            "kv_heads": columns["heads"],
            "seq": "2048",
            "vocab": "32000",
            "pp": "1",
            "dp": str(chips // tensor),
            "micro_batch": str(script["batch"] * tensor),
            "global_batch": str(script["batch"] * chips),
            "zero_or_fsdp": f"FSDP {chips // slices // tensor}",
            "metric": f"{found['metric']}, {slices} slices",
        }
    )


def _is_of(script: Mapping[str, Any], row: Mapping[str, str]) -> bool:
    names = ("source", "model")
    return all(re.search(script[name], row[name].lower()) for name in names)


@cache
def _scripts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found
