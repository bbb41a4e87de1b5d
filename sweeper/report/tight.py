"""Best designs that fit an NPU's memory by so little that PyTorch's cache may find no room."""

from collections.abc import Collection

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.report.summary import CellSummary


def tight(summaries: Collection[CellSummary]) -> list[str]:
    """Return a remark for each best design of which the cache may reserve more than an NPU has."""
    return list(filter(None, map(_of_cell, summaries)))


def _of_cell(summary: CellSummary) -> str:
    best, npu = summary.best, summary.study.config_of(summary.cell).get("npu") or {}
    own = best.get("npu.memory", npu.get("memory"))  # where it is searched, a column
    held, reserved = (best.get(f"memory{name}_bytes") for name in ("", "_reserved"))
    if own is None or pd.isna(own) or held is None or reserved is None:
        return ""
    has = units.parse(own, units.BYTES)
    if not held <= has < reserved:  # more is held in what expands the memory
        return ""
    of, room = (
        f"{units.format_bytes(held)} of {units.format_bytes(has)}",
        units.format_bytes(reserved),
    )
    return (
        f"the best design holds {of} of an NPU's memory, and PyTorch's cache may reserve {room} "
        "for that; npu.headroom=0.15 searches designs that leave room"
    )
