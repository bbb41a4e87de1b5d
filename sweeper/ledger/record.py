"""What a study is, as ``study.json`` keeps it: typed, frozen records."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationError,
)

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import Frontier
from dimsweep.engine.rules import Pair
from dimsweep.sweeper.config.roles import default_role, is_plan
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.cells import CELL, PRUNED, Entries
from dimsweep.sweeper.ledger.place import STUDY, Place, read, translating_store_errors
from dimsweep.sweeper.ledger.rows import ROWS_VERSION
from dimsweep.sweeper.ledger.versions import check_version, checksum, identity, upgrade, writer
from dimsweep.sweeper.objective import OBJECTIVES, Objective
from dimsweep.sweeper.part import in_order
from dimsweep.sweeper.plugins import load

WORKLOAD = "workload"  # the axis that a portfolio adds to its study's grid


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class _Columns(_Record):
    """A :class:`Frontier` of K amounts: three columns (K,), and bandwidths (K, D)."""

    cost: tuple[float, ...] = Field(min_length=1)
    bound: tuple[float, ...]
    value: tuple[float, ...]
    bandwidth: tuple[tuple[float, ...], ...]


def _parse_frontier(value: Any) -> Frontier:
    if isinstance(value, Frontier):
        return value
    columns = {name: np.array(each) for name, each in _Columns.model_validate(value)}
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError("its columns are of different lengths")
    return Frontier(**columns)


_Frontier = Annotated[
    Frontier,
    PlainValidator(_parse_frontier),
    PlainSerializer(lambda front: {name: each.tolist() for name, each in vars(front).items()}),
]


class CellRecord(_Record):
    """One cell of a study's grid: one search.  Cells whose trials may have equal keys have the same
    ``content``; ``config`` has those parts of a cell's configuration that its rows depend on and
    that are not the study's own.

    ``exhaustive``: the search tries every design of its space.
    ``baseline`` is of the design that there is today what it changes, and ``key`` its row's; cells
    that are searched have neither.
    ``bound`` is what no split beats in the first objective, ``ms_per_GBps`` (D,) what bandwidth is
    worth where that bound is least, ``usd_per_GBps`` (D,) what it costs.  ``front`` is the least
    time for each cost, in a study of both.
    """

    cell: int
    coordinates: Mapping[str, str]
    dims: tuple[str, ...]
    workload: str
    n_npus: int
    #: the work of an iteration, such as "1,024 samples"; None if unknown, or in older records
    work: str | None = None
    sampler: str
    trials: int
    exhaustive: bool = False
    content: str | None = None
    config: Mapping[str, Any] | None = None
    bound: float | None = None
    pairs: tuple[Pair, ...] = ()
    ms_per_GBps: tuple[float, ...] | None = None  # noqa: N815
    usd_per_GBps: tuple[float, ...] | None = None  # noqa: N815
    front: _Frontier | None = None
    stops_at_gap: float | None = None
    baseline: Mapping[str, Any] | None = None
    key: str | None = None


LEFT_OUT = "cells have more messages than network.max_messages, and are left out"
FULL = "cells do not fit the memory, as their schedule runs"


class PrunedCell(_Record):
    """An infeasible cell of the grid, or an infeasible ``baseline``, and why.

    A ``left_out`` cell is feasible but takes too long to simulate. A proof counts cells by
    ``reason``.
    """

    coordinates: Mapping[str, str]
    error: str
    reason: str = FULL
    left_out: bool = False
    baseline: Mapping[str, Any] | None = None


class PortfolioRecord(_Record):
    """One split for the workloads of ``cells``, which count by ``share`` (N,).

    ``own`` (N,) is the least loss of each workload alone, in seconds or in seconds times USD, and
    ``bound`` what no split beats in the measure; both are known once the cells have been searched.
    Of one network ``cells`` have the workloads' best plans on it, and ``alone`` (N, N) those on the
    network that is best for each workload alone; -1 where none was found.
    """

    cells: tuple[int, ...]
    measure: str
    level: float
    share: tuple[float, ...]
    own: tuple[float, ...] | None = None
    bound: float | None = None
    alone: tuple[tuple[int, ...], ...] = ()


class End(_Record):
    """How far something may be multiplied before the answer loses.

    Up to ``factor`` the answer wins; there another cell wins, whose coordinates are ``by``, or none
    if no cell wins in the examined range. ``is_open``: too many cells may win there to simulate all
    of them.
    """

    factor: float
    by: Mapping[str, str] | None = None
    is_open: bool = False
    #: the nearest factor at which a search found that the answer loses; None if ``factor`` is exact
    lost_at: float | None = None

    @property
    def is_far(self) -> bool:
        """Whether the answer holds over the whole examined range."""
        return self.by is None and not self.is_open


class Change(_Record):
    """What would change the answer of a search among networks and plans: between which factors of
    what has this ``name`` no other cell is better, and between which none is by more than 1%."""

    name: str
    down: End
    up: End
    near_down: End
    near_up: End


class Rival(End):
    """The design that is next behind the answer, whose loss is a ``factor`` of the answer's.
    ``sure``: how sure it is that measurements of both would rank them so; None where nobody
    measured anything alike.  ``elsewhere``: that is so of networks that were measured, of which
    theirs are none.  If it ``is_open``, another design may be nearer: ``by`` is the best one that
    was simulated, and no other design's loss is below ``at_least`` times the answer's."""

    at_least: float | None = None
    sure: float | None = None
    elsewhere: bool = False


class Regions(_Record):
    """What wins where two things are not what they were thought to be: with ``x`` times each of
    ``xs``, and ``y`` times each of ``ys``, that one of ``designs`` (their coordinates, the answer
    first) whose number is in ``winners`` (by ys, then by xs), proven; -1 where too many cells may
    win to simulate all of them."""

    x: str
    y: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    designs: tuple[Mapping[str, str], ...]
    winners: tuple[tuple[int, ...], ...]


class Step(_Record):
    """A step of the front of time and cost: among all designs that cost at most ``cost``, none
    takes less than ``bound``, and the best one found takes ``time``."""

    cost: float
    time: float
    bound: float


class Proof(_Record):
    """How a search among networks and plans ended.  Of ``cells``, level 0 (memory and computation)
    ``excluded[0]``, loads in closed form ``excluded[1]``, the bounds of programs ``excluded[2]``;
    ``bounded`` had their program bounded, and of these ``simulated`` were simulated.  ``refused``
    counts what is no cell, and what is left out, by reason.  ``best`` is the best design's value,
    and ``bound`` what none of all cells beats.  ``steps`` has, as it went, how many cells were
    bounded by a program, the best value and the bound then.  ``changes``: what would change the
    answer, ``rival`` who comes next, and ``regions`` what wins where.  ``front``, of time and cost,
    has its steps, the dearest first; the best value is then the least time, of which that of the
    first step may differ by the gap.  Of a portfolio all values are those of its measure, in which
    regrets count from one."""

    cells: int
    excluded: tuple[int, int, int]
    bounded: int
    simulated: int
    refused: Mapping[str, int] = {}
    best: float | None = None
    bound: float | None = None
    steps: tuple[tuple[int, float, float], ...] = ()
    changes: tuple[Change, ...] = ()
    rival: Rival | None = None
    regions: Regions | None = None
    front: tuple[Step, ...] = ()

    def limit(self, cost: float | None) -> float | None:
        """Return the value that no design beats; of a front, that none beats at this ``cost``."""
        if cost is None:
            return self.bound
        bounds = [step.bound for step in self.front if step.cost >= cost]
        return max(bounds, default=self.bound)


class Provenance(_Record):
    """What simulated rows: the version of dimsweep, its commit in git (with a plus if files had
    changed), Python, the packages, the machine, and the day (UTC) of the start."""

    version: str
    git: str | None
    python: str
    packages: Mapping[str, str]
    machine: str
    date: str | None = None


class StudyRecord(_Record):
    """A whole study.  ``note`` is what a reader must know that no figure says.  ``model`` and
    ``rows`` are the versions of the engine's model and of the columns; ``config`` is the resolved
    configuration without what changes no row; ``provenance`` has an entry for each that wrote rows.
    ``foreign`` is what is known of objectives of plug-ins, which may be gone when rows are read.
    ``roles`` are those of axes and of searched keys, and ``weights`` how much each value of an axis
    counts among scenarios, where that is said. ``baseline`` is what the design that there is today
    changes, which has a cell in ``baselines`` for each combination of the scenarios;
    ``no_baselines`` are those that cannot be. Of a large grid ``n_streamed`` is the number of
    cells, which are planned one after the other; what is known of them is in files of their own.
    ``n_trials`` is how many trials were planned at most, and ``finished`` whether all searches came
    to their end: a sweep that was stopped, or still runs, has not. Records of older versions do not
    say either. ``proof`` is that of a search among networks and plans, once it has ended."""

    name: str
    note: str | None = None
    model: int | None = None
    rows: int | None = None
    objective: tuple[str, ...]
    foreign: Mapping[str, Mapping[str, Any]] = {}
    grid: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    weights: Mapping[str, Mapping[str, float]] = {}
    baseline: Mapping[str, Any] = {}
    learns_from_slopes: bool = False
    warnings: tuple[str, ...] = ()
    n_streamed: int | None = None
    n_trials: int | None = None
    finished: bool | None = None
    cells: tuple[CellRecord, ...] = ()
    pruned: tuple[PrunedCell, ...] = ()
    baselines: tuple[CellRecord, ...] = ()
    no_baselines: tuple[PrunedCell, ...] = ()
    portfolios: tuple[PortfolioRecord, ...] = ()
    proof: Proof | None = None
    provenance: tuple[Provenance, ...] = ()
    config: Mapping[str, Any]
    #: The identity of a study that an earlier version wrote, whose configuration is upgrade.
    _written: str | None = PrivateAttr(None)

    @property
    def is_current(self) -> bool:
        """Whether this version wrote the study, and may add rows."""
        return self._written is None

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives; the first one ranks trials."""
        if any(name not in OBJECTIVES for name in self.objective):
            with suppress(*((DimsweepError,) if self.foreign else ())):
                load(self.config.get("plugins", ()))
        kept = {name: Objective.of_plain(plain) for name, plain in self.foreign.items()}
        known = kept | OBJECTIVES
        if gone := [name for name in self.objective if name not in known]:
            hint = f"plugins: {', '.join(self.config.get('plugins', ())) or 'none'}"
            problem = "no plug-in of the study registers it"
            raise DimsweepError(
                problem, where=f"objective {gone[0]}", hint=hint, code="unknown-name"
            )
        return tuple(known[name] for name in self.objective)

    @property
    def is_certified(self) -> bool:
        """Whether the study searches among networks and plans, most of which bounds exclude: its
        recorded cells are the most promising ones."""
        return (self.config.get("space") or {}).get("network") is not None

    def config_of(self, cell: CellRecord) -> dict[str, Any]:
        """Return the resolved configuration of a cell: the study's with the cell's parts."""
        return {**self.config, **(cell.config or {})}

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The axes of the grid that are scenarios; the others are decisions."""
        roles = {axis: self.roles.get(axis) or default_role(axis) for axis in self.grid}
        return tuple(axis for axis in self.grid if roles[axis] == Role.SCENARIO)

    def scenario(self, coordinates: Mapping[str, str]) -> dict[str, str]:
        """Return the scenario part of a cell's coordinates."""
        return {axis: coordinates[axis] for axis in self.scenarios}

    @property
    def is_shared(self) -> bool:
        """Whether it searches one network for several workloads, each with a plan of its own."""
        return self.is_certified and WORKLOAD in self.grid

    def decision(self, coordinates: Mapping[str, str]) -> dict[str, str]:
        """Return the decision part of a cell's coordinates; without the plan, for a network that
        several workloads share."""
        axes = [axis for axis in self.grid if not (self.is_shared and is_plan(axis))]
        return {k: v for k, v in coordinates.items() if k in axes and k not in self.scenarios}

    def with_portfolio(self, number: int, own: tuple[float, ...], bound: float | None) -> Self:
        """Return the study with findings of its portfolio number ``number``, from 0."""
        portfolios = list(self.portfolios)
        portfolios[number] = portfolios[number].model_copy(update={"own": own, "bound": bound})
        return self.model_copy(update={"portfolios": tuple(portfolios)})

    def streamed(self, n: int) -> Self:
        """Return the study as a large grid of ``n`` cells, which have files of their own."""
        none = dict.fromkeys(("cells", "pruned", "baselines", "no_baselines"), ())
        return self.model_copy(update={"n_streamed": n, **none})

    def with_cells(self, cells: Sequence[CellRecord], pruned: Sequence[PrunedCell]) -> Self:
        """Return the study with the recorded cells of a large grid and its baselines, without cells
        of an earlier baseline."""
        return self.model_copy(
            update={
                "cells": tuple(each for each in cells if each.baseline is None),
                "pruned": tuple(each for each in pruned if each.baseline is None),
                "baselines": tuple(each for each in cells if each.baseline == self.baseline),
                "no_baselines": tuple(each for each in pruned if each.baseline == self.baseline),
            }
        )

    @property
    def identity(self) -> str:
        """The mark of the study's files: a hash of all that its rows depend on."""
        if self._written is not None:
            return self._written
        return identity(json.loads(self.model_dump_json(include={"config", "model", "rows"})))

    def to_json(self) -> bytes:
        """Return the text of ``study.json``, with a checksum of everything else in it."""
        node = json.loads(self.model_dump_json())
        return json.dumps(node | {"checksum": checksum(node)}, indent=1).encode()


_REPAIR_HINT = "sweep the study again: it sets the file aside and keeps all rows"


class DamagedStudyError(DimsweepError):
    """An error of a damaged ``study.json``."""

    code = "damaged"


def read_study(folder: Place) -> StudyRecord:
    """Read the study in ``folder`` with its cells; raises :class:`DimsweepError` if it is missing
    or damaged."""
    study = read_record(folder)
    if study.n_streamed is None:
        return study
    entries = Entries.read(folder, study.identity)
    for file, why in entries.damaged:
        raise DamagedStudyError(
            f"the study's cells cannot be read: {why}", where=str(file), hint=_REPAIR_HINT
        )
    texts = [entries.last(kind)["text"].to_pylist() for kind in (CELL, PRUNED)]
    return study.with_cells(
        tuple(map(CellRecord.model_validate_json, texts[0])),
        tuple(map(PrunedCell.model_validate_json, texts[1])),
    )


def read_record(folder: Place) -> StudyRecord:
    """Read ``study.json``; raises :class:`DimsweepError` if it is missing."""
    file = folder / STUDY
    try:
        with translating_store_errors(folder):
            node = json.loads(read(file).to_pybytes())
        if not isinstance(node, dict):
            raise ValueError("it is not a JSON object")
        written = node.pop("checksum", None)
        if written not in (None, checksum(node)):
            raise ValueError("its checksum is wrong")
        if written is None and _is_misnamed(node):
            raise ValueError("its checksum has another name")
        check_version(node, str(file))
        study = StudyRecord.model_validate(upgrade(node))
        if study.rows != ROWS_VERSION:
            study._written = identity(node)
        return study
    except FileNotFoundError:
        raise DimsweepError(
            "no study here",
            where=str(folder),
            hint="dimsweep sweep study=... creates one",
            code="missing",
        ) from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        hint = "give the folder of a study's results, or its name in results/"
        raise DimsweepError(
            f"the study cannot be read: {why}", where=str(file), hint=hint, code="inaccessible"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DimsweepError(
            f"the study cannot be read: {place}{': ' if place else ''}{first['msg']}",
            where=str(file),
            hint=f"{writer(node)} wrote it: read it with that version",
            code="damaged",
        ) from error
    except (ValueError, RecursionError) as error:
        raise DamagedStudyError(
            f"the study cannot be read: {error}",
            where=str(file),
            hint=_REPAIR_HINT,
        ) from error


def _is_misnamed(node: dict[str, Any]) -> bool:
    """Return whether a record that seems older than checksums has one under a damaged name."""
    return any(
        name not in StudyRecord.model_fields
        and value == checksum({key: each for key, each in node.items() if key != name})
        for name, value in node.items()
    )


def check_same(old: StudyRecord, new: StudyRecord, folder: Place) -> None:
    """Raise :class:`DimsweepError`, with the difference, if rows of ``new`` must not be among those
    of ``old``, or if another version wrote ``old``."""
    if not old.is_current:
        raise DimsweepError(
            f"the results have format {old.rows}, of an earlier version; this one (format "
            f"{ROWS_VERSION}) reads them, but cannot resume them",
            where=str(folder),
            hint="sweep under another name (name=...); these results stay as they are",
            code="unsupported",
        )
    before, after = flatten(in_order(old.config)), flatten(in_order(new.config))
    for version in ("model", "rows"):
        before[version], after[version] = getattr(old, version), getattr(new, version)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if changed:
        lines = [f"\n  {key}: {before.get(key)!r} -> {after.get(key)!r}" for key in changed[:12]]
        more = f"\n  ... and {len(changed) - 12} more" if len(changed) > 12 else ""
        raise DimsweepError(
            "these results belong to another study:" + "".join(lines) + more,
            where=str(folder),
            hint="give the new study another name (name=...), or remove the folder",
            code="mismatch",
        )


def flatten(node: Any, path: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by dotted key."""
    if isinstance(node, Mapping) and node:
        return {k: v for key in node for k, v in flatten(node[key], f"{path}.{key}").items()}
    return {path.removeprefix("."): node}
