"""The pictures of a report, as PNG bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.bound import Frontier
from sweeper.draw.canvas import BEST, BLUE, EQUAL, GREEN, GREY, ORANGE, panels
from sweeper.objective import COST, TIME, Objective
from sweeper.report import words, worth
from sweeper.report.recheck import Comparison, agreement
from sweeper.report.summary import CellSummary, Floats

_LOG_RATIO = 20.0  # bars that differ more than this are drawn on a logarithmic scale
_TRIAL = {"s": 12, "color": GREY, "alpha": 0.5, "lw": 0, "label": "one trial"}


def draw_all(summaries: Sequence[CellSummary]) -> dict[str, bytes]:
    """File names and PNGs, in reading order; a picture that would show nothing is left out."""
    found = [summary for summary in summaries if summary.found]
    pictures = {"convergence.png": _convergence(found), "best_split.png": _best_split(found)}
    if mappable := [s for s in found if len(s.dims) > 1 and s.split_varies]:
        pictures["split_map.png"] = _split_map(mappable)
    if len(found[0].objectives) > 1:
        pictures["pareto.png"] = _pareto(found)
    if valued := [s for s in found if s.saved() is not None]:
        pictures["worth.png"] = worth.picture(valued)
    if again := [s for s in found if Comparison.of(s).complete]:
        pictures["recheck.png"] = _recheck(again)
    return pictures


def _convergence(summaries: Sequence[CellSummary]) -> bytes:
    scale = _Scale.of(summaries, summaries[0].objective)

    def draw(ax: Any, summary: CellSummary) -> None:
        values, sign = scale.values(summary.complete), scale.objective.sign
        number = summary.complete["trial"] + 1
        ax.scatter(number, values, **_TRIAL)
        best = sign * np.minimum.accumulate(sign * values)
        ax.step(number, best, where="post", color=BLUE, lw=2.2, label="best so far")
        if summary.equal is not None:
            equal = scale.values(summary.equal)
            ax.axhline(equal, color=ORANGE, lw=1.8, ls="--", label="equal split")
        ax.set(xlabel="trials tried", xlim=(0, number.max() + 1))
        ax.xaxis.get_major_locator().set_params(integer=True)
        _zoom(ax, summary, y=scale)

    return panels(summaries, 8, words.headline(summaries), words.convergence, draw)


def _best_split(summaries: Sequence[CellSummary]) -> bytes:
    def draw(ax: Any, summary: CellSummary) -> None:
        best, places = summary.split(summary.best), np.arange(len(summary.dims))
        both = best
        shift = 0.0 if summary.equal is None else 0.2
        bars = ax.barh(places - shift, best, 0.38, color=BLUE, label=words.best_name(summary))
        texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
        ax.bar_label(bars, texts, padding=4, fontsize=9)
        if summary.equal is not None:
            equal = summary.split(summary.equal)
            both = np.concatenate([best, equal])
            bars = ax.barh(places + shift, equal, 0.38, color=ORANGE, label="equal split")
            ax.bar_label(bars, [words.gbps(b) for b in equal], padding=4, fontsize=9)
        ax.set_xlabel("bandwidth per NPU (GB/s)")
        if both.max() > _LOG_RATIO * both.min():
            ax.set_xlabel("bandwidth per NPU (GB/s, logarithmic)")
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("")
        ax.set_yticks(places, summary.dims)
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.margins(x=0.25)

    overview = "Where the best splits put the bandwidth"
    return panels(summaries, 8, overview, words.largest_share, draw)


def _split_map(summaries: Sequence[CellSummary]) -> bytes:
    scale = _Scale.of(summaries, summaries[0].objective)

    def draw(ax: Any, summary: CellSummary) -> None:
        x, y = summary.widest_dims()
        ax.set_xlabel(f"share of {words.dim_name(summary, x)} (%)")
        if len(summary.dims) == 2:  # the other share follows, so show the objective instead
            ax.scatter(100 * summary.shares()[:, x], scale.values(summary.complete), **_TRIAL)
            _mark(ax, summary, lambda row: (_percent(summary, row)[x], scale.values(row)))
            _zoom(ax, summary, y=scale)
        else:
            _colour(ax, summary, scale, x, y)
            _mark(ax, summary, lambda row: _percent(summary, row)[[x, y]])
            ax.set_ylabel(f"share of {words.dim_name(summary, y)} (%)")

    overview = "How far from the best split one may stray"
    return panels(summaries, 4, overview, words.tolerance, draw)


def _pareto(summaries: Sequence[CellSummary]) -> bytes:
    x, y = (_Scale.of(summaries, objective) for objective in summaries[0].objectives)

    def draw(ax: Any, summary: CellSummary) -> None:
        ax.scatter(x.values(summary.complete), y.values(summary.complete), **_TRIAL)
        ax.plot(
            x.values(summary.front),
            y.values(summary.front),
            "o-",
            color=BLUE,
            ms=5,
            lw=1.5,
            drawstyle="steps-post",
            label="no trial is better in both",
        )
        if summary.proven is not None:
            rows = _proven_front(summary.proven)
            line = {"color": GREEN, "lw": 3, "zorder": 1, "label": "proven bound"}
            ax.plot(x.values(rows), y.values(rows), **line)
        _mark(ax, summary, lambda row: (x.values(row), y.values(row)))
        _zoom(ax, summary, x=x, y=y)

    return panels(summaries, 4, "What one objective costs in the other", words.trade_off, draw)


def _proven_front(proven: Frontier) -> dict[str, Floats]:
    """The bound on the front as rows of a ledger are, close enough to each other for a curve."""
    cost = np.interp(np.arange(0, len(proven.cost), 0.1), range(len(proven.cost)), proven.cost)
    return {COST.column: cost, TIME.column: proven.least_time(cost)}


def _recheck(summaries: Sequence[CellSummary]) -> bytes:
    scale = _Scale.of(summaries, Comparison.of(summaries[0]).measure)

    def draw(ax: Any, summary: CellSummary) -> None:
        complete = Comparison.of(summary).complete
        phases = [float(scale.values(recheck.phases)) for recheck in complete]
        messages = [float(scale.values(recheck.messages)) for recheck in complete]
        same = [min(phases), max(phases)]
        ax.plot(same, same, color=GREY, lw=1, label="the same both ways")
        ax.scatter(phases, messages, color=BLUE, s=40, zorder=3, label="one design, by its rank")
        for recheck, x, y in zip(complete, phases, messages, strict=True):
            ax.annotate(str(recheck.rank), (x, y), (5, -3), textcoords="offset points")
        ax.set(xlabel=f"{scale.label}, by phases", ylabel=f"{scale.label}, by messages")

    overview = "The best designs, message by message"
    return panels(summaries, 4, overview, lambda s: agreement(Comparison.of(s)), draw)


@dataclass(frozen=True)
class _Scale:
    """An objective in the unit it is drawn in: ``factor`` times the ledger's."""

    objective: Objective
    factor: float
    label: str

    @classmethod
    def of(cls, summaries: Sequence[CellSummary], objective: Objective) -> _Scale:
        """One unit for all panels: that of the smallest best value."""
        smallest = min(objective.of(s.best) for s in summaries)
        return cls(objective, *words.axis(objective, smallest))

    def values(self, rows: Any) -> Any:
        """The objective of some rows, or of one."""
        return self.factor * rows[self.objective.column]

    def useful_range(self, summary: CellSummary) -> tuple[float, float]:
        """From the best value to that of the equal split, the front's end or most trials.

        A search also tries splits that are many times slower; showing them would hide the rest.
        """
        losses = self.objective.sign * self.values(summary.complete)
        poor = [np.percentile(losses, 80), (self.objective.sign * self.values(summary.front)).max()]
        if summary.equal is not None:
            poor.append(self.objective.sign * self.values(summary.equal))
        low, high = sorted(self.objective.sign * loss for loss in (losses.min(), max(poor)))
        return float(low), float(high)


def _zoom(ax: Any, summary: CellSummary, **scales: _Scale) -> None:
    """Label the axes ``x`` and ``y``, show their useful ranges, and count the trials outside."""
    outside = np.zeros(len(summary.complete), bool)
    for side, scale in scales.items():
        low, high = scale.useful_range(summary)
        margin = 0.08 * (high - low) or 0.05 * abs(high)
        ends = (low - margin, high + margin)
        if high > _LOG_RATIO * low > 0:
            ends = (low / 1.3, high * 1.3)
            ax.set(**{f"{side}scale": "log"})
            axis = getattr(ax, f"{side}axis")
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        ax.set(**{f"{side}label": scale.label, f"{side}lim": ends})
        outside |= ~scale.values(summary.complete).between(*ends).to_numpy()
    if outside.any():
        ax.set_xlabel(f"{ax.get_xlabel()}   [{outside.sum()} worse trials lie outside]")


def _colour(ax: Any, summary: CellSummary, scale: _Scale, x: int, y: int) -> None:
    """The trials by the shares of two dimensions; the darker the better, the near-best ringed."""
    trials = summary.complete.assign(
        x=100 * summary.shares()[:, x],
        y=100 * summary.shares()[:, y],
        ring=np.where(summary.near_best(), 0.6, 0.0),
    )
    sign, column = scale.objective.sign, scale.objective.column
    trials = trials.sort_values(column, ascending=sign < 0)  # the best come last, so lie on top
    low, high = scale.useful_range(summary)
    drawn = ax.scatter(
        trials["x"],
        trials["y"],
        c=scale.values(trials),
        s=24,
        vmin=low,
        vmax=high,
        cmap="viridis" if sign > 0 else "viridis_r",
        edgecolor="black",
        linewidth=trials["ring"],
    )
    ax.figure.colorbar(drawn, ax=ax, label=scale.label, extend="max" if sign > 0 else "min")
    ax.scatter([], [], s=24, facecolor="none", edgecolor="black", lw=0.8, label="within 1% of best")


def _mark(ax: Any, summary: CellSummary, place: Callable[[Any], Any]) -> None:
    """Mark the best trial and the equal split, each at the ``place`` (x, y) of its row."""
    ax.scatter(*place(summary.best), **BEST, label=words.best_name(summary))
    if summary.equal is not None:
        ax.scatter(*place(summary.equal), **EQUAL, label="equal split")


def _percent(summary: CellSummary, row: Any) -> Floats:
    """(D,) shares of ``row``'s bandwidth in percent."""
    split = summary.split(row)
    return np.asarray(100 * split / split.sum())
