"""What of the best designs no part offers."""

from collections.abc import Collection, Iterator

from dimsweep.sweeper.config.catalogue import Kind, catalogue
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.summary import CellSummary

_LIMITS = ("total", "cost", "bisection", "max")  # of bandwidths that are searched
_SAME = 0.01  # of a bandwidth, by which it may differ from a part's


def unsold(summaries: Collection[CellSummary]) -> list[str]:
    """A remark for each bandwidth of a searched best split that no part of the catalogue has, in
    the cells whose topology names the kinds of its links."""
    return list(dict.fromkeys(text for cell in summaries for text in _of_cell(cell)))


def _of_cell(summary: CellSummary) -> Iterator[str]:
    stored = summary.study.config_of(summary.cell)
    kinds, machines = (
        stored.get(part, {}).get(name) or ()
        for part, name in (("topology", "links"), ("npu", "machines"))
    )
    space = stored.get("space", {}).get("bandwidth", {})
    if not any(space.get(name) for name in _LIMITS) or len(kinds) != len(summary.dims):
        return
    known = catalogue().links
    split = summary.split(summary.best)
    for name, kind, bandwidth in zip(summary.dims, kinds, split.tolist(), strict=True):
        if kind in known and (text := _missing(known[kind], bandwidth, machines)):
            yield f"{name} of the best design: {text}"


def _missing(kind: Kind, bandwidth: float, machines: Collection[str]) -> str:
    """That no part has a bandwidth (GB/s), and which are the nearest; nothing where one has."""
    parts = sorted(kind.parts, key=lambda part: part.bandwidth)
    same = [part for part in parts if abs(part.bandwidth / 1e9 / bandwidth - 1) <= _SAME]
    if any(part.suits(machines) for part in same):
        return ""
    if same:
        return f"{same[0].name} ({words.gbps(bandwidth)} GB/s) is not for {' or '.join(machines)}"
    below = [part for part in parts if part.bandwidth / 1e9 < bandwidth][-1:]
    above = [part for part in parts if part.bandwidth / 1e9 > bandwidth][:1]
    near = [f"{words.gbps(part.bandwidth / 1e9)} GB/s ({part.title})" for part in below + above]
    verb = "are" if len(near) > 1 else "is"
    return (
        f"no {kind.what} has {words.gbps(bandwidth)} GB/s; the nearest {verb} {' and '.join(near)}"
    )
