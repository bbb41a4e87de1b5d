"""Reports: what a study found, told right in numbers, pictures, tables and a page."""

from __future__ import annotations

import numpy as np
import pandas as pd

DIMS = ["0: Ring(4)", "1: FullyConnected(8)", "2: Ring(4)", "3: Switch(32)"]


def measure(bandwidth, prices=(4e3, 8e3, 8e3, 20e3)):
    """A model like LIBRA's: compute, then two collectives as slow as their slowest dimension."""
    bytes_gb = np.array([11.0, 2.75, 0.343, 0.111])[: len(bandwidth)]
    each = bytes_gb / bandwidth
    slowest = [
        int(np.argmax(each[part])) + part.start
        for part in (slice(0, 2), slice(2, 4))
        if len(each[part])
    ]
    exposed = np.where(np.isin(np.arange(len(each)), slowest), each, 0.0)
    time = 0.684 + exposed.sum()
    cost = 4e6 + float(np.dot(bandwidth, prices[: len(bandwidth)])) if prices else np.nan
    row = {
        "time_s": time,
        "time_ps": int(time * 1e12),
        "compute_s": 0.684,
        "exposed_s": exposed.sum(),
        "waiting_s": 0.0,
        "cost_usd": cost,
        "perf_per_cost": 1 / (time * cost),
        "exposed_by_collective_s": {
            "all_reduce tensor": exposed[:2].sum(),
            "all_reduce data": exposed[2:].sum(),
        },
    }
    for d, b in enumerate(bandwidth):
        row |= {
            f"bandwidth_{d}_GBps": b,
            f"exposed_{d}_s": exposed[d],
            f"bytes_{d}": bytes_gb[d] * 1e9,
            f"busy_{d}": min(1.0, each[d] / time),
            f"utilisation_{d}": min(1.0, each[d] / time),
        }
    return row


def search(points, n_dims=4, total=500.0, seed=0):
    """Splits as a sampler asks for them: the equal one, some at random, then near the best."""
    rng = np.random.default_rng(seed)
    splits = [np.full(n_dims, total / n_dims)]
    while len(splits) < points:
        if len(splits) < points // 5:
            share = rng.dirichlet(np.ones(n_dims))
        else:
            best = min(splits, key=lambda split: measure(split)["time_s"])
            share = best / best.sum() * rng.lognormal(0, 0.25, n_dims)
        splits.append(np.maximum(np.round(total * share / share.sum(), 1), 1.0))
    return splits[:points]


def make_rows(splits, cell=0, prices=(4e3, 8e3, 8e3, 20e3), **coordinates):
    rows = [
        {
            "key": f"{cell}-{i}",
            "cell": cell,
            "point": i,
            "origin": "tpe" if i else "equal",
            "state": "complete",
            "error": None,
            **coordinates,
            "collective.chunks": 64,
            **measure(split, prices),
        }
        for i, split in enumerate(splits)
    ]
    return pd.DataFrame(rows)


def make_study(rows, objective=("time",), grid=(), parameters=(), dims=None):
    cells = []
    for cell, part in rows.groupby("cell"):
        n_dims = int(part.filter(regex=r"^bandwidth_\d").notna().any().sum())
        cells.append(
            {
                "cell": cell,
                "coordinates": {key: part[key].iloc[0] for key in grid},
                "dims": (dims or DIMS)[:n_dims],
                "workload": "GPT-3",
                "n_npus": 4096,
                "sampler": "tpe",
                "points": len(part),
            }
        )
    config = {"name": "demo", "topology": {"shape": "Ring(4)_FullyConnected(8)"}}
    return {
        "name": "demo",
        "objective": list(objective),
        "grid": list(grid),
        "parameters": list(parameters),
        "cells": cells,
        "config": config,
    }


def fail(rows, points, error):
    """The same rows, with ``points`` failed: an error and no measures."""
    bad = rows["point"].isin(points)
    rows = rows.assign(state=np.where(bad, "failed", "complete"), error=np.where(bad, error, None))
    measures = rows.filter(regex=r"_s$|_ps$|^bytes_|^busy_|^utilisation_|_usd$|^perf_").columns
    rows[measures] = rows[measures].mask(bad)
    return rows
