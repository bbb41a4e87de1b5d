"""What each change alone does to the best design, and to the baseline."""

from dimsweep.sweeper.objective import EFFECTIVE_TIME, TIME
from dimsweep.sweeper.report.naming import label
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.what_if import WhatIf, factor, groups
from dimsweep.sweeper.report.words import seconds, usd

_FIXED = "each change alone, the rest of the design as it is (not searched again)"


def table(summary: CellSummary, title: str = "What if") -> list[Sheet]:
    """What each change does, the largest effect first, and what cannot be simulated."""
    of_designs = groups(summary)
    if not of_designs:
        return []
    several = len(of_designs) > 1
    columns, named = ["change"], [{each.name: each for each in own} for own in of_designs]
    for own in of_designs:
        columns += _heads(own[0], several=several, priced=summary.priced)
    names = dict.fromkeys(each.name for own in of_designs for each in own)
    rows = [
        (name, *(text for own in named for text in _texts(own.get(name), several, summary.priced)))
        for name in names
    ]
    sheets = [Sheet(f"{title}: {_FIXED}", tuple(columns), rows)]
    told = {each.name: each.error for own in of_designs for each in own if _is_told(each)}
    if told:
        sheets.append(Sheet("What cannot be changed so", ("change", "why"), list(told.items()), 2))
    return sheets


def table_of_cells(report: Report) -> list[Sheet]:
    """What each change does to the best design of each cell that was asked; of one cell, all."""
    cells = [cell for cell in report.found if groups(cell)]
    if len(report.summaries) == 1 or not cells:
        return []
    if len(cells) == 1:
        return table(cells[0], f"What if, of {label(cells[0])}")
    found = [{each.name: each for each in groups(cell)[0]} for cell in cells]
    rows = [
        (name, *(_fast(own[name]) if name in own else "" for own in found))
        for name in dict.fromkeys(name for own in found for name in own)
    ]
    columns = ("times as fast", *(label(cell).replace(", ", ",\n") for cell in cells))
    of = f", of the one {report.portfolios[0].noun} for all" if report.portfolios else ""
    return [Sheet(f"What if{of}: {_FIXED}", columns, rows)]


def _heads(one: WhatIf, *, several: bool, priced: bool) -> list[str]:
    """The heads of a design's columns, with what it has before the change."""
    design = f"{one.of.name}: " if several else ""
    measure = TIME if one.of.row.isna().get(EFFECTIVE_TIME.column, True) else EFFECTIVE_TIME
    time = "time" if measure is TIME else "effective time"
    heads = [f"{design}{time},\nfrom {seconds(measure.of(one.of.row))}", "times\nas fast"]
    if priced and not several:
        heads.append(f"cost, from\n{usd(one.of.row['cost_usd'])}")
    return heads + ["per\nUSD"] * priced


def _texts(change: WhatIf | None, several: bool, priced: bool) -> list[str]:
    if change is None or change.failed:
        why = "" if change is None else _why(change)
        return [why, *[""] * (1 + priced * (2 - several))]
    texts = [_value(change), _fast(change)]
    if priced and not several:
        texts.append(usd(change.row["cost_usd"]) if change.cost != 1 else "same")
    return texts + [factor(change.per_cost)] * priced


def _why(change: WhatIf) -> str:
    return f"does not fit: {change.need}" if change.need else "cannot be"


def _is_told(change: WhatIf) -> bool:
    """Whether it takes a line of its own to say why a change cannot be."""
    return change.failed and not change.need


def _value(change: WhatIf) -> str:
    """The time after the change; of another piece of work the throughput before and after."""
    measure = change.measure
    if measure in (TIME, EFFECTIVE_TIME):
        return "same" if change.speed == 1 else seconds(measure.of(change.row))
    before, after = (measure.show(measure.of(row)) for row in (change.of.row, change.row))
    return f"{before.split(' ')[0]} -> {after}"


def _fast(change: WhatIf) -> str:
    return _why(change) if change.failed else factor(change.speed)


SECTION = Section(of_study=table_of_cells, of_cell=table)
