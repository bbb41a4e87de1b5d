"""Remarks on a study: axes without effect, memory that is nearly full, unavailable bandwidths."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from dimsweep.engine import MERIT_NEEDS, units
from dimsweep.sweeper.config.catalogue import LinkKind, load_catalogue
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import BANDWIDTH, BASELINE, COMPLETE, RECHECK, WHAT_IF
from dimsweep.sweeper.report import naming, sentences, words
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.trials import Rows

_CHANGED = (RECHECK, BASELINE, WHAT_IF)  # differ in more than the axes of the study
_RESULTS = ("time_ps", "cost_usd", *MERIT_NEEDS)
_FIRST = 100_000  # rows, which show of most axes that they make a difference


def idle_axes(rows: pd.DataFrame | Rows, study: StudyRecord) -> list[str]:
    """Return the axes of the grid and the searched keys whose values never changed a result.

    Only rows that differ in the axis and nothing else are compared. An axis without such rows is
    not returned.
    """
    axes, rows = list(dict.fromkeys([*study.grid, *study.parameters])), Rows.wrap(rows)
    if not axes:
        return []
    design = list(dict.fromkeys([*BANDWIDTH.among(rows.names), *axes]))
    first, whole = list[pd.DataFrame](), True
    for own in _compared(rows, design):
        first.append(own)
        if sum(map(len, first)) > _FIRST:
            whole = False
            break
    if not first:
        return []
    start = pd.concat(first)
    is_idle = {axis: _is_idle(start, axis, design) for axis in axes}
    if not whole:  # what made a difference in some rows makes one in all
        open_still = [axis for axis in axes if is_idle[axis] is not False]
        is_idle |= {
            axis: _is_idle(_find_comparable(rows, axis, design), axis, design)
            for axis in open_still
        }
    return [axis for axis in axes if is_idle[axis]]


def _compared(rows: Rows, design: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield tables with the design and the results of the comparable rows."""
    results = rows.existing_columns(_RESULTS)
    for own in rows.pieces([*design, *results, "state", "origin"]):
        complete = (own["state"] == COMPLETE) & ~own["origin"].isin(_CHANGED)
        yield own[complete.to_numpy()][[*design, *results]]


def _find_comparable(rows: Rows, axis: str, design: Sequence[str]) -> pd.DataFrame:
    """Return the rows for which another row differs only in the axis and in the result."""
    others = [name for name in design if name != axis]
    hashes = [_hashes(own, others) for own in _compared(rows, design)]
    every = np.sort(np.concatenate(hashes))
    again = np.unique(every[1:][every[1:] == every[:-1]])
    pairs = zip(_compared(rows, design), hashes, strict=True)
    return pd.concat([own[np.isin(each, again)] for own, each in pairs])


def _hashes(rows: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    if not names:
        return np.zeros(len(rows), np.uint64)
    return pd.util.hash_pandas_object(rows[list(names)], index=False).to_numpy()


def _is_idle(rows: pd.DataFrame, axis: str, design: Sequence[str]) -> bool | None:
    """Return whether rows that differ only in the axis have equal results.

    It is None without such rows.
    """
    others = [name for name in design if name != axis]
    grouped = rows.groupby(others, dropna=False) if others else rows.groupby(lambda _: 0)
    compared = grouped[axis].nunique() > 1
    if not compared.any():
        return None
    there = [name for name in rows.columns if name not in design]
    results = grouped[there].nunique(dropna=False).max(axis=1)
    return bool((results[compared] == 1).all())


_LIMITS = ("total", "cost", "bisection", "max")  # of bandwidths that are searched
_SAME = 0.01  # of a bandwidth, by which it may differ from a part's


def unsold(summaries: Collection[CellSummary]) -> list[str]:
    """Return a remark for each bandwidth of a best split for which no part is sold.

    Only searched splits are checked, in cells whose topology names the kinds of its links.
    """
    return list(dict.fromkeys(text for cell in summaries for text in _unsold_of_cell(cell)))


def _unsold_of_cell(summary: CellSummary) -> Iterator[str]:
    stored = summary.study.config_of(summary.cell)
    kinds, machines = (
        stored.get(part, {}).get(name) or ()
        for part, name in (("topology", "links"), ("npu", "machines"))
    )
    space = stored.get("space", {}).get("bandwidth", {})
    if not any(space.get(name) for name in _LIMITS) or len(kinds) != len(summary.dims):
        return
    known = load_catalogue().links
    split = summary.split(summary.best)
    for name, kind, bandwidth in zip(summary.dims, kinds, split.tolist(), strict=True):
        if kind in known and (text := _missing(known[kind], bandwidth, machines)):
            yield sentences.OF_BEST_DESIGN(dim=name, remark=text)


def _missing(kind: LinkKind, bandwidth: float, machines: Collection[str]) -> str:
    """Return a remark if no part of a ``kind`` has a bandwidth (GB/s), with the nearest parts.

    It is "" if a part has the bandwidth.
    """
    parts = sorted(kind.parts, key=lambda part: part.bandwidth)
    same = [part for part in parts if abs(part.bandwidth / 1e9 / bandwidth - 1) <= _SAME]
    if any(part.suits(machines) for part in same):
        return ""
    if same:
        own, others = words.gbps(bandwidth), " or ".join(machines)
        return sentences.NOT_SOLD_FOR(part=same[0].name, bandwidth=own, machines=others)
    below = [part for part in parts if part.bandwidth / 1e9 < bandwidth][-1:]
    above = [part for part in parts if part.bandwidth / 1e9 > bandwidth][:1]
    near = [
        sentences.NEAREST_PART(bandwidth=words.gbps(part.bandwidth / 1e9), part=part.title)
        for part in below + above
    ]
    return sentences.NOT_SOLD(
        kind=kind.what,
        bandwidth=words.gbps(bandwidth),
        are="are" if len(near) > 1 else "is",
        parts=" and ".join(near),
    )


def tight(summaries: Collection[CellSummary]) -> list[str]:
    """Return a remark for each best design whose memory cache may exceed an NPU's memory."""
    return list(filter(None, map(_tight_of_cell, summaries)))


def _tight_of_cell(summary: CellSummary) -> str:
    best, npu = summary.best, summary.study.config_of(summary.cell).get("npu") or {}
    own = best.get("npu.memory", npu.get("memory"))  # where it is searched, a column
    held, reserved = (best.get(f"memory{name}_bytes") for name in ("", "_reserved"))
    if own is None or pd.isna(own) or held is None or reserved is None:
        return ""
    has = units.parse(own, units.BYTES)
    if not held <= has < reserved:  # more is held in what expands the memory
        return ""
    held, memory, reserved = map(units.format_bytes, (held, has, reserved))
    return sentences.TIGHT(held=held, memory=memory, reserved=reserved)


def no_baseline(missing: Sequence[tuple[Mapping[str, str], str]]) -> list[str]:
    """Return a remark for each reason why the baseline could not be simulated."""
    places: dict[str, list[str]] = {}
    for scenario, error in missing:
        cause = error.splitlines()[0]  # what would help a candidate follows
        places.setdefault(cause, []).append(naming.coordinates_of(scenario))
    found = []
    for cause, names in places.items():
        first, *others = [name for name in names if name] or [""]
        more = sentences.AND_MORE(n=len(others)) if others else ""
        where = sentences.WITH_SCENARIO(name=first, more=more) if first else ""
        found.append(sentences.NO_BASELINE(where=where, cause=cause))
    return found


_PLACES = 3
_CELLS = re.compile(r" \(in \d+ of \d+ cells\)$")
_GROUP = re.compile(r"^[\w ,-]+: (?=dimension )")
_AMOUNT = re.compile(r"(\d) (?:[kMGT]?B/s|[pnum]?s|GB)\b")  # the unit is the number's


@dataclass(frozen=True)
class Remark:
    """Texts of one rule about several places (such as cells), in the order found."""

    texts: Sequence[str]

    @property
    def line(self) -> str:
        """The first text in full, with the number and the first places of the other texts."""
        first, *others = self.texts
        if not others:
            return first
        places = list(dict.fromkeys(self._places()[1:]))
        # A text whose end alone differs has no place of its own.
        shown = ", ".join(each for each in places[:_PLACES] if each)
        more = ", ..." if len(places) > _PLACES else ""
        where = f": {shown}{more}" if shown else ""
        return sentences.MORE_LIKE_IT(first=first, n=len(others), places=where)

    def _places(self) -> list[str]:
        """Return the place with which each text begins, without its group.

        A place ends before the first two words that all texts share after a word that differs.
        """
        groups = [_GROUP.match(text) for text in self.texts]
        named = [group.group() if group else "" for group in groups]
        rows = [_GROUP.sub("", text).split(" ") for text in self.texts]
        equal = [len(set(words)) == 1 for words in zip(*rows, strict=False)]
        differs = equal.index(False) if False in equal else len(equal)
        ends = (i for i, pair in enumerate(pairwise(equal)) if i > differs and all(pair))
        end = next(ends, 0)
        if end and re.fullmatch(r"[\d.,]+", rows[0][end - 1]):
            end += 1  # a number, and what it counts
        found = (name + " ".join(words[:end]) for name, words in zip(named, rows, strict=True))
        return [place.rstrip(",;") for place in found]


def merged(texts: Iterable[str]) -> list[Remark]:
    """Merge remarks that differ only in places and amounts.

    A merged remark has the position of its first text.
    """
    kinds: dict[str, list[str]] = {}
    for text in texts:
        kinds.setdefault(_kind(text), []).append(text)
    return [Remark(own) for own in kinds.values()]


def _kind(text: str) -> str:
    """Return a text without its places and amounts."""
    plain = _AMOUNT.sub(r"\1", _GROUP.sub("", _CELLS.sub("", text)))
    return " ".join("#" if re.search(r"\d", word) else word for word in plain.split(" "))
