"""How much of LIBRA's gain is left with Themis, with a switch that reduces, and with both."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sweeper.draw.canvas import BLUE, GREEN, GREY, ORANGE, encoded, frame
from sweeper.verify.points import Findings, Point, Shape, Value, relative, verification
from sweeper.verify.searched import run_searches

_GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "libra" / "reference.json"
_LIBRA = "LIBRA's closed form (Won et al., ISPASS 2024), its optimum certified by a convex solver"
_PIPELINES = "our times are event-driven: pipelines of 64 chunks fill and drain"
_HERE = "asked here; nobody published it"
_TOTAL = 500.0  # GB/s of an NPU
# Our name of a workload, LIBRA's in the reference, and that in the picture.
WORKLOADS = {
    "gpt3_libra": ("GPT_3", "GPT-3"),
    "msft1t_libra": ("MSFT_1T", "MSFT-1T"),
    "turing_nlg_libra": ("Turing_NLG", "Turing-NLG"),
    "resnet50_libra": ("ResNet_50", "ResNet-50"),
}
VARIANTS = {
    (False, False): "baseline order",
    (False, True): "in-switch reduction",
    (True, False): "Themis",
    (True, True): "both",
}
_COLOURS = (GREY, GREEN, BLUE, ORANGE)


class Cell(NamedTuple):
    """Seconds of the equal split, of the best split, and that no split can beat."""

    equal: float
    best: float
    bound: float

    @property
    def gain(self) -> float:
        """What the best split gains over the equal one."""
        return self.equal / self.best - 1

    @property
    def most(self) -> float:
        """What no split can gain more than."""
        return self.equal / self.bound - 1


Cells = dict[tuple[str, tuple[bool, bool]], Cell]  # by workload, and whether Themis and in-switch


def find() -> Findings:
    """Ask how much of LIBRA's gain is left with Themis, in-switch reduction, or both.

    The best split of 500 GB/s over LIBRA's 4D network beside the equal split, for its four
    workloads, with the bound that no split can beat. In the baseline order the optima and gains are
    LIBRA's; the rest nobody published.
    """
    cells: Cells = {}
    for summary in run_searches("what_is_left"):
        work, order, algorithms = summary.cell.coordinates.values()
        assert summary.equal is not None and summary.bound is not None
        cells[work, (order == "themis", "in_switch" in algorithms)] = Cell(
            float(summary.equal["time_s"]), float(summary.best["time_s"]), summary.bound
        )
    return Findings([*_optima(cells), *_bounds(cells)], lambda kind: _draw(cells, kind))


def _optima(cells: Cells) -> Iterator[Point]:
    cases = {
        case["workload"]: case["best"]
        for case in json.loads(_GOLDEN.read_text())["cases"]
        if (case["dims"], case["objective"], case["total_bw_GBps"]) == (4, "perf", _TOTAL)
    }
    for work, (theirs, name) in WORKLOADS.items():
        cell, best = cells[work, (False, False)], cases[theirs]
        optimum = best["time_ns"] / 1e6
        ours = cell.best * 1e3
        yield Value(f"{name}: optimum", optimum, ours, relative(0.01), _LIBRA, "ms", _PIPELINES)
        gain = best["equalbw_time_ns"] / best["time_ns"]
        yield Value(f"{name}: gain", gain, 1 + cell.gain, relative(0.01), _LIBRA, "x", _PIPELINES)


def _bounds(cells: Cells) -> Iterator[Point]:
    gaps = [cell.best / cell.bound - 1 for cell in cells.values()]
    found = f"{sum(gap >= 0 for gap in gaps)} of {len(gaps)}; largest gap {max(gaps):.1%}"
    yield Shape("proven bounds", "no split beats them", found, min(gaps) >= 0, _HERE)
    for work, (_, name) in WORKLOADS.items():
        gains = [f"{what} {cells[work, key].gain:.1%}" for key, what in VARIANTS.items()]
        plain, themis = (cells[work, (order, False)].gain for order in (False, True))
        claim = "less than half of the gain is left with Themis"
        yield Shape(f"{name}: gain", claim, ", ".join(gains), themis < plain / 2, _HERE)


def _draw(cells: Cells, kind: str) -> bytes:
    title = (
        "How much faster the best split of 500 GB/s is than the equal one: Themis leaves little of "
        "it, in-switch reduction all"
    )
    with frame(title, 4.4) as figure:
        ax = figure.subplots()
        for i, (key, what) in enumerate(VARIANTS.items()):
            places = np.arange(len(WORKLOADS)) + 0.2 * (i - 1.5)
            own = [cells[work, key] for work in WORKLOADS]
            gains = [100 * cell.gain for cell in own]
            drawn = ax.bar(places, gains, 0.18, color=_COLOURS[i], label=what)
            ax.bar_label(drawn, [f"{gain:.1f}" for gain in gains], padding=5, fontsize=8)
            most = [100 * cell.most for cell in own]
            label = "proven: no split gains more" if i == 0 else None
            ax.plot(places, most, "_", color="black", markersize=16, label=label)
        ax.set_xticks(range(len(WORKLOADS)), [name for _, name in WORKLOADS.values()])
        ax.set_ylabel("gain over the equal split (%)")
        ax.grid(visible=False, axis="x")
        ax.legend(loc="upper left")
        return encoded(figure, kind)


command = verification("what_is_left", find, drawn=True)
