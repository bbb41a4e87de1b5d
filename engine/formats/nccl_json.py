"""The JSON that nccl-tests write with ``--output_file`` (github.com/NVIDIA/nccl-tests, util.cu)."""

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from dimsweep.engine.formats.fields import read_json, validated


class Device(BaseModel):
    """The GPU of a rank."""

    rank: int
    group: int = 0
    hostname: str


class _Speed(BaseModel):
    time: float | None = None  # us
    nwrong: float | None = None


class _Result(BaseModel):
    size: int
    out_of_place: _Speed | None = None
    in_place: _Speed | None = None


class _Config(BaseModel):
    devices: list[Device] = []


class _File(BaseModel):
    args: list[str] = []
    config: _Config = _Config()
    results: list[_Result]


class Row(NamedTuple):
    """A size in bytes, its time in us if it was measured, and the number of wrong elements."""

    size: int
    us: float | None
    wrong: float | None


class Results(NamedTuple):
    """The content of a file: the program that ran, the GPU of each rank, and the rows."""

    program: str
    devices: list[Device]
    rows: list[Row]


def read_results(file: Path) -> Results:
    """Return the content of a file; the time is that out of place, if there is one.

    Raises :class:`DimsweepError` naming file and key for what is not as nccl-tests write it.
    """
    content = validated(_File, read_json(file, "results of nccl-tests"), file)
    rows = []
    for each in content.results:
        speed = each.out_of_place or each.in_place or _Speed()
        rows.append(Row(each.size, speed.time, speed.nwrong))
    return Results(content.args[0] if content.args else "", content.config.devices, rows)
