"""Wafers against conventional clusters, with and without Themis: ASTRA-sim 2.0, cases 1 and 2."""

from collections.abc import Iterator

import numpy as np

from engine import Topology
from sweeper.config.compose import compose
from sweeper.draw.canvas import BLUE, GREY, Bars, draw_bars, encoded, frame
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import Findings, Point, Shape, Value, relative, verification
from sweeper.verify.themis import all_reduce, without_latency

_PAPER = "Won et al., ASTRA-sim 2.0, ISPASS 2023, case studies 1 and 2"
_DERIVED = "bandwidth terms of the same systems, derived from the public inputs; not published"
GIB = 2.0**30
SYSTEMS = {
    "w_1d_350": "W-1D-350",
    "w_1d_500": "W-1D-500",
    "w_1d_600": "W-1D-600",
    "w_2d": "W-2D",
    "conv_3d": "Conv-3D",
    "conv_4d": "Conv-4D",
}
WORKLOADS = {
    "all_reduce": "All-reduce of 1 GiB",
    "themis_dlrm": "DLRM",
    "wafer_gpt3": "GPT-3",
    "wafer_transformer_1t": "Transformer-1T",
}
# The wafer of one switch with as much bandwidth an NPU.
PARTNER = {"w_2d": "w_1d_500", "conv_3d": "w_1d_350", "conv_4d": "w_1d_600"}
# Microseconds of 1 GiB in 64 chunks: the baseline, Themis first in first out, and smallest first.
REFERENCE = {
    "w_1d_350": (5703.1, 5703.1, 5703.1),
    "w_1d_500": (3992.2, 3992.2, 3992.2),
    "w_1d_600": (3326.8, 3326.8, 3326.8),
    "w_2d": (7750.0, 4062.3, 4003.7),
    "conv_3d": (9375.0, 5874.0, 5800.8),
    "conv_4d": (4437.5, 3717.1, 3608.4),
}
_TIES = {
    (
        "conv_3d",
        "Themis+FIFO",
    ): "the loads of two dimensions tie: with exact fractions Themis takes "
    "what ours takes; the reference's value follows if floating point rounds one of them up",
    ("conv_4d", "Themis+SCF"): "why is not known: no order of events at one instant, of equal "
    "chunks, or of equal loads that was tried gives the reference's value",
}
_RELAYED = "DLRM's all-to-alls pay on a Ring for the hops that their bytes travel"
_EQUAL = 0.10  # what counts as near-identical

Times = dict[tuple[str, str, str], float]  # seconds by workload, system and collectives


def topology(system: str) -> Topology:
    """One of ``SYSTEMS``."""
    return compose([f"topology={system}"]).config.topology.build()


def find() -> Findings:
    """Reproduce ASTRA-sim 2.0's comparison of wafers with conventional clusters, with Themis.

    An all-reduce, DLRM, GPT-3 and Transformer-1T on 512 NPUs: cases 1 and 2 of its paper. The times
    of the paper are only shown in figures, so its findings are tests of shape; the values are
    bandwidth terms that were derived from the same systems.
    """
    times, exposed = Times(), Times()
    for (work, system, kind), result in simulate_designs("wafer").items():
        times[work, system, kind] = result.time
        exposed[work, system, kind] = result.exposed
    equal = [*_near(times), *_apart(exposed)]
    points = [*_references(), *_fastest(times), *_themis(times), *equal]
    return Findings(points, lambda kind: _draw(times, kind))


def _references() -> Iterator[Point]:
    for system, derived in REFERENCE.items():
        bare = without_latency(topology(system))
        for scheduler, theirs in zip(
            ("Baseline", "Themis+FIFO", "Themis+SCF"), derived, strict=True
        ):
            name = f"1 GiB, {SYSTEMS[system]}, {scheduler}"
            ours = all_reduce(bare, scheduler, GIB)
            note = _TIES.get((system, scheduler), "")
            yield Value(name, theirs, ours, relative(0.01), _DERIVED, "us", note, "derived")


def _fastest(times: Times) -> Iterator[Point]:
    for kind, words in (("default", "in the baseline order"), ("themis", "with Themis")):
        best = {
            work: min((times[work, system, kind], system) for system in SYSTEMS)[1]
            for work in WORKLOADS
        }
        found = ", ".join(f"{name}: {SYSTEMS[best[work]]}" for work, name in WORKLOADS.items())
        good = set(best.values()) == {"w_1d_600"}
        yield Shape(f"fastest {words}", "W-1D-600 for every workload", found, good, _PAPER)


def _themis(times: Times) -> Iterator[Point]:
    gains = {
        system: times["all_reduce", system, "default"] / times["all_reduce", system, "themis"]
        for system in SYSTEMS
    }
    found = ", ".join(f"{SYSTEMS[system]} {gain:.2f}x" for system, gain in gains.items())
    good = all((gain == 1) == system.startswith("w_1d") for system, gain in gains.items())
    claim = "no change on W-1D, large gains on W-2D, Conv-3D and Conv-4D"
    yield Shape("all-reduce with Themis", claim, found, good, _PAPER)


def _near(times: Times) -> Iterator[Point]:
    for work in ("all_reduce", "themis_dlrm"):
        loss = _losses(times, work)
        label = f"{WORKLOADS[work]}, equal bandwidth, with Themis"
        claim = f"near-identical whatever the dimensions (here: within {_EQUAL:.0%})"
        note = _RELAYED if work == "themis_dlrm" else ""
        yield Shape(label, claim, _told(loss), max(loss.values()) <= _EQUAL, _PAPER, note)


def _apart(exposed: Times) -> Iterator[Point]:
    for work in ("wafer_gpt3", "wafer_transformer_1t"):
        loss = _losses(exposed, work)
        label = f"{WORKLOADS[work]}, equal bandwidth, with Themis"
        claim = "the wafer communicates faster: the tensor group does not span all dimensions"
        good = min(loss["conv_3d"], loss["conv_4d"]) > _EQUAL
        yield Shape(label, claim, f"exposed: {_told(loss)}", good, _PAPER)


def _losses(times: Times, work: str) -> dict[str, float]:
    """What each system loses to the wafer of one switch that has as much bandwidth."""
    return {
        system: times[work, system, "themis"] / times[work, wafer, "themis"] - 1
        for system, wafer in PARTNER.items()
    }


def _told(loss: dict[str, float]) -> str:
    return ", ".join(f"{SYSTEMS[system]} {each:+.1%}" for system, each in loss.items())


def _draw(times: Times, kind: str) -> bytes:
    title = (
        "512 NPUs: with Themis equal bandwidth is nearly equal time, unless the groups of a model "
        "leave dimensions idle"
    )
    with frame(title, 7.0) as figure:
        for ax, (work, name) in zip(figure.subplots(2, 2).flat, WORKLOADS.items(), strict=True):
            groups = []
            for order, colour, label in (
                ("default", GREY, "baseline order"),
                ("themis", BLUE, "with Themis"),
            ):
                of = np.array([times[work, system, order] for system in SYSTEMS])
                share = of / times[work, "w_1d_600", "themis"]
                groups.append(Bars(share, [f"{x:.2f}" for x in share], colour, label))
            draw_bars(ax, list(SYSTEMS.values()), groups)
            ax.set_title(name)
            ax.margins(x=0.15)
            ax.set_xlabel("time, W-1D-600 = 1")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return encoded(figure, kind)


command = verification("wafer", find, drawn=True)
