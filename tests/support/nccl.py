"""Files of nccl-tests."""

import json
from typing import Any


def json_of(program: str, n_hosts: int, *results: dict[str, object]) -> str:
    """Return the file that nccl-tests write with --output_file."""
    devices = [
        {"rank": i, "group": 0, "pid": 7, "hostname": f"node-{i % n_hosts}", "device": i}
        for i in range(8)
    ]
    config = {"nthreads": 1, "ngpus": 8, "devices": devices}
    return json.dumps(
        {"version": 1, "args": [f"./build/{program}"], "config": config, "results": results}
    )


def result(
    size: int, out: float | None, inside: float, wrong: float | None = 0.0
) -> dict[str, Any]:
    """Return a row of that file; times in us."""
    speeds = [None if us is None else {"time": us, "nwrong": wrong} for us in (out, inside)]
    return {"size": size, "type": "float", "root": "    -1"} | dict(
        zip(("out_of_place", "in_place"), speeds, strict=True)
    )
