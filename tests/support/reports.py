"""Rows and studies as a sweep leaves them, made up, for the tests of reports."""

import io

import numpy as np
import pandas as pd
from rich.console import Console

from dimsweep.sweeper.draw.terminal import print_report
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report.summary import summarise

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


def search(trials, n_dims=4, total=500.0, seed=0):
    """Splits as a sampler asks for them: the equal one, some at random, then near the best."""
    rng = np.random.default_rng(seed)
    splits = [np.full(n_dims, total / n_dims)]
    times = [measure(splits[0])["time_s"]]
    while len(splits) < trials:
        share = rng.dirichlet(np.ones(n_dims))
        if len(splits) >= trials // 5:
            share = splits[np.argmin(times)] * rng.lognormal(0, 0.25, n_dims)
        splits.append(np.maximum(np.round(total * share / share.sum(), 1), 1.0))
        times.append(measure(splits[-1])["time_s"])
    return splits


def make_rows(splits, cell=0, prices=(4e3, 8e3, 8e3, 20e3), **coordinates):
    rows = [
        {
            "key": f"{cell}-{i}",
            "cell": cell,
            "trial": i,
            "origin": "tpe" if i else "equal",
            "state": "complete",
            "error": None,
            "fidelity": "phase",
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
            CellRecord(
                cell=cell,
                coordinates={key: str(part[key].iloc[0]) for key in grid},
                dims=(dims or DIMS)[:n_dims],
                workload="GPT-3",
                n_npus=4096,
                sampler="tpe",
                trials=len(part),
            )
        )
    config = {"name": "demo", "topology": {"shape": "Ring(4)_FullyConnected(8)"}}
    return StudyRecord(
        name="demo",
        objective=objective,
        grid=grid,
        parameters=parameters,
        cells=cells,
        config=config,
    )


def with_cells(study, **entries):
    """The same study, with the same ``entries`` in every cell's record."""
    cells = [CellRecord(**{**dict(cell), **entries}) for cell in study.cells]
    return study.model_copy(update={"cells": tuple(cells)})


def bounded(study, bound):
    """The same study, with the same proven bound for every cell."""
    return with_cells(study, bound=bound)


def fail(rows, bad, error):
    """The same rows, those at the places ``bad`` failed: an error and no measures."""
    bad = pd.Series([place in bad for place in range(len(rows))])
    rows = rows.assign(state=np.where(bad, "failed", "complete"), error=np.where(bad, error, None))
    measures = rows.filter(regex=r"_s$|_ps$|^bytes_|^busy_|^utilisation_|_usd$|^perf_").columns
    rows[measures] = rows[measures].mask(bad)
    return rows


def one_cell(**columns):
    """Four trials with ``columns`` replaced; trial 0 is the equal split."""
    splits = [[125.0] * 4, [338.0, 85.0, 58.0, 19.0], [300.0, 100.0, 60.0, 40.0], [200.0, 50.0] * 2]
    return make_rows(splits).assign(**columns)


def again(rows, times, cell=0, fidelity="message"):
    """``rows``, and the designs of the first of them again, message by message, in ``times``
    (None: failed), as a sweep writes them: numbered from the budget on."""
    copies = rows[rows["cell"] == cell].head(len(times)).assign(origin="recheck", error=None)
    copies["fidelity"], copies["trial"] = fidelity, len(rows) + np.arange(len(times))
    copies["time_s"] = [np.nan if time is None else time for time in times]
    failed = copies["time_s"].isna().to_numpy()
    copies["perf_per_cost"] = 1 / (copies["time_s"] * copies["cost_usd"])
    copies["state"] = np.where(failed, "failed", "complete")
    copies["error"] = np.where(failed, "deadlock <b>", None)
    return pd.concat([rows, copies], ignore_index=True)


def what_if(rows, times, cell=0, of=None, **columns):
    """``rows``, and changes (name: time, None if it failed) of the best design of a cell, or of the
    row with the key ``of``, as a sweep writes them."""
    own = rows[rows["cell"] == cell]
    design = own.loc[own["time_s"].idxmin()] if of is None else own[own["key"] == of].iloc[0]
    made = []
    for i, (name, time) in enumerate(times.items()):
        row = {**design, "key": f"{design['key']} {name}", "origin": "what_if", "trial": 1000 + i}
        row |= {"change": name, "change_of": design["key"], "changes": '{"npu.flops": 1}'}
        row |= {name: value[i] for name, value in columns.items()}
        why = "npu.memory: an NPU must hold 96.04 GB of 85.8993 GB: weights\n  or else"
        failed = {"state": "infeasible", "error": why, "time_s": np.nan, "cost_usd": np.nan}
        made.append(row | (failed if time is None else {"time_s": time}))
    return pd.concat([rows, pd.DataFrame(made)], ignore_index=True)


def ranked(times, messages, **kwargs):
    """The comparison of designs with ``times`` by phases, and ``messages`` in the same order."""
    splits = [[100.0 + i, 50.0, 50.0, 50.0] for i in range(len(times))]
    columns = {"time_s": times, "cost_usd": kwargs.pop("costs", [10.0] * len(times))}
    rows = make_rows(splits).assign(**columns)
    rows["perf_per_cost"] = 1 / (rows["time_s"] * rows["cost_usd"])
    return only(again(rows, messages), **kwargs)


def only(rows, **kwargs):
    (summary,) = summarise(rows, make_study(rows, **kwargs))
    return summary


def grid(prices=(4e3, 8e3, 8e3, 20e3)):
    """Twelve trials for each of four cells, some with names that mean something elsewhere."""
    parts = [
        make_rows(search(12, total=250.0 * (cell + 1)), cell, prices, **{"a.total": name})
        for cell, name in enumerate(["500 GB/s", "a$b$", "[red]c", "<b>d</b>"])
    ]
    return pd.concat(parts, ignore_index=True)


def failing(rows):
    """The same rows, but trial 3 of every cell and all trials of cell 3 failed."""
    dead = (rows["cell"] == 3) | (rows["trial"] == 3)
    return fail(rows, np.flatnonzero(dead), "boom <script>alert('x')</script> [bold]&[/bold] more")


def text_of(rows, study):
    console = Console(file=io.StringIO(), width=80)
    print_report(build_report(rows, study), console)
    return console.file.getvalue()


def with_baseline(rows, study, times, name="workload"):
    """The same study with a baseline of these times in each scenario; None where it failed."""
    baseline = {"topology": "today"}
    cells, parts = [], [rows]
    for i, (scene, time) in enumerate(times.items()):
        own = make_rows([[100.0, 50.0, 20.0, 10.0]], cell=100 + i).assign(origin="baseline")
        own["time_s"], own["key"] = np.nan if time is None else time, f"baseline {i}"
        own["state"] = "infeasible" if time is None else "complete"
        own["error"] = "too large\n  a hint" if time is None else None
        coordinates = dict.fromkeys(study.grid, "baseline") | ({name: scene} if scene else {})
        parts.append(own.assign(**coordinates))
        like = study.cells[0].model_dump() | {
            "cell": 100 + i,
            "coordinates": coordinates,
            "baseline": baseline,
            "key": f"baseline {i}",
        }
        cells.append(type(study.cells[0])(**like))
    update = {"baseline": baseline, "baselines": tuple(cells)}
    return pd.concat(parts, ignore_index=True), study.model_copy(update=update)


def networks(times):
    """The report of a grid of workloads and networks, whose best trials take ``times``; each cell
    tries two splits."""
    parts = []
    for cell, ((workload, network), time) in enumerate(times.items()):
        splits = [[125.0] * 4, [400.0 - cell, 50.0, 30.0 + cell, 20.0]]
        rows = make_rows(splits, cell=cell, workload=workload, network=network)
        parts.append(rows.assign(time_s=[2.0 * time, float(time)]))
    rows = pd.concat(parts, ignore_index=True)
    return build_report(rows, make_study(rows, grid=("workload", "network")))
