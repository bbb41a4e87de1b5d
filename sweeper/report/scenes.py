"""Which cells of several studies may be ranked: those that assume the same."""

from collections.abc import Mapping, Sequence

from dimsweep.sweeper.config.roles import default_role
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord, flat
from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.references import value_of

_NAMED = 3  # keys that tell scenarios of one workload apart
_WORKLOAD = "workload"


def scenes(studies: Sequence[StudyRecord]) -> list[dict[int, str]]:
    """For each study the scenario of each of its cells; cells whose scenarios are called the same
    assume the same: the model with its batch, the value of every axis that is a scenario in any of
    the studies, and, where iterations are compared, the work of an iteration."""
    axes = list(dict.fromkeys(axis for study in studies for axis in study.scenarios))
    decided = {
        name for each in studies for name, role in each.roles.items() if role != Role.SCENARIO
    }
    assumed = {
        (i, cell.cell): _assumed(study, cell, axes, decided)
        for i, study in enumerate(studies)
        for cell in study.cells
    }
    cells = {(i, cell.cell): cell for i, study in enumerate(studies) for cell in study.cells}
    labels = {place: cells[place].workload for place in assumed}
    for place in _of_unlike_work(studies, cells, assumed):
        assumed[place] |= {"iteration": cells[place].work or ""}
    for name in dict.fromkeys(labels.values()):
        alike = {place: assumed[place] for place, own in labels.items() if own == name}
        labels |= _told_apart(name, alike)
    return [{cell.cell: labels[i, cell.cell] for cell in s.cells} for i, s in enumerate(studies)]


def _of_unlike_work(
    studies: Sequence[StudyRecord],
    cells: Mapping[tuple[int, int], CellRecord],
    assumed: Mapping[tuple[int, int], dict[str, str]],
) -> list[tuple[int, int]]:
    """Return the places of ``cells`` that assume the same but whose iterations do unlike work, if
    the first objective compares iterations; older records do not say how much."""
    scene = {place: (cell.workload, *assumed[place].items()) for place, cell in cells.items()}
    works: dict[object, set[str | None]] = {}
    for place, cell in cells.items():
        works.setdefault(scene[place], set()).add(cell.work)
    return [
        place
        for place in cells
        if len(works[scene[place]] - {None}) > 1 and studies[place[0]].objectives[0].of_iterations
    ]


def _assumed(
    study: StudyRecord, cell: CellRecord, axes: Sequence[str], decided: set[str]
) -> dict[str, str]:
    """What a cell's designs have to stand, by key."""
    config = study.config_of(cell)
    own = {
        name: str(value)
        for name, value in flat({_WORKLOAD: config.get(_WORKLOAD, {})}).items()
        if default_role(name) is Role.SCENARIO and name not in decided
    }
    for axis in axes:
        if axis.split(".")[0] != _WORKLOAD:
            value = cell.coordinates.get(axis, value_of(config, axis))
            own[axis] = "" if isinstance(value, Mapping) or value is None else str(value)
    return own


def _told_apart(
    name: str, assumed: Mapping[tuple[int, int], dict[str, str]]
) -> dict[tuple[int, int], str]:
    """Labels of cells of one workload: its name, and what they assume differently."""
    keys = dict.fromkeys(key for own in assumed.values() for key in own)
    differ = [key for key in keys if len({own.get(key) for own in assumed.values()}) > 1]
    shorts = dict(zip(differ, short_keys(differ), strict=True))
    names: dict[tuple[str | None, ...], str] = {}
    for own in assumed.values():
        values = tuple(own.get(key) for key in differ)
        told = [f"{shorts[k]} {v}" for k, v in zip(differ, values, strict=True) if v][:_NAMED]
        label = ", ".join([name, *told])
        if values not in names:  # what the first few keys do not tell apart is numbered
            twins = sum(each.split(" (")[0] == label for each in names.values())
            names[values] = f"{label} ({twins + 1})" if twins else label
    return {place: names[tuple(own.get(key) for key in differ)] for place, own in assumed.items()}
