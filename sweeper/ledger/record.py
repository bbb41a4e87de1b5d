"""The record of a study as ``study.json`` stores it: typed, frozen records."""

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
from dimsweep.sweeper.config.roles import default_role, is_plan_key
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.cells import CELL, PRUNED, Entries
from dimsweep.sweeper.ledger.place import STUDY, Place, read, translating_store_errors
from dimsweep.sweeper.ledger.rows import ROWS_VERSION
from dimsweep.sweeper.ledger.versions import check_version, checksum, identity, upgrade, writer
from dimsweep.sweeper.objective import OBJECTIVES, Objective
from dimsweep.sweeper.part import encode_order
from dimsweep.sweeper.plugins import load_plugins

WORKLOAD = "workload"  # the axis that a portfolio adds to its study's grid


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class _Columns(_Record):
    """A :class:`Frontier` in plain data: three columns (K,) of amounts, and bandwidths (K, D)."""

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
    """One cell of a study's grid: a search with its own axis values, or a baseline."""

    cell: int
    coordinates: Mapping[str, str]
    dims: tuple[str, ...]
    workload: str
    n_npus: int
    #: the work of an iteration, such as "1,024 samples"; None if unknown, or in older records
    work: str | None = None
    sampler: str
    trials: int
    #: whether the search tries every design of its space
    exhaustive: bool = False
    #: equal for cells whose trials may have equal keys
    content: str | None = None
    #: parts of the configuration on which rows depend and that differ from the study's
    config: Mapping[str, Any] | None = None
    #: value of the first objective that no split beats
    bound: float | None = None
    pairs: tuple[Pair, ...] = ()
    #: time saved per bandwidth (D,) at the minimum of the bound
    ms_per_GBps: tuple[float, ...] | None = None  # noqa: N815
    #: price of bandwidth (D,)
    usd_per_GBps: tuple[float, ...] | None = None  # noqa: N815
    #: minimum time for each cost, in a study of both
    front: _Frontier | None = None
    stops_at_gap: float | None = None
    #: keys that a baseline changes; None for cells that are searched
    baseline: Mapping[str, Any] | None = None
    #: key of a baseline's row
    key: str | None = None


LEFT_OUT = "cells have more messages than network.max_messages, and are left out"
FULL = "cells do not fit the memory, as their schedule runs"


class PrunedCell(_Record):
    """An infeasible cell of the grid, or an infeasible ``baseline``, with the reason.

    A ``left_out`` cell is feasible but takes too long to simulate. A proof counts cells by
    ``reason``.
    """

    coordinates: Mapping[str, str]
    error: str
    reason: str = FULL
    left_out: bool = False
    baseline: Mapping[str, Any] | None = None


class PortfolioRecord(_Record):
    """One bandwidth split, or one network, for N workloads."""

    #: cells of the workloads; with one network the cells of their best plans on it
    cells: tuple[int, ...]
    measure: str
    level: float
    #: weights of the workloads (N,)
    share: tuple[float, ...]
    #: minimum loss of each workload on its best design (N,), in s or s USD; None until searched
    own: tuple[float, ...] | None = None
    #: value of the measure that no design beats; None until searched
    bound: float | None = None
    #: cells of all workloads on the best network of each workload (N, N); -1 if none was found
    alone: tuple[tuple[int, ...], ...] = ()


class End(_Record):
    """The factor of a quantity at which the answer starts to lose."""

    #: up to this factor the answer wins
    factor: float
    #: coordinates of the cell that wins there; None if no cell wins in the examined range
    by: Mapping[str, str] | None = None
    #: whether too many cells may win there to simulate all of them
    is_open: bool = False
    #: the nearest factor at which a search found that the answer loses; None if ``factor`` is exact
    lost_at: float | None = None

    @property
    def is_far(self) -> bool:
        """True if the answer stays the best over the whole examined range."""
        return self.by is None and not self.is_open


class Change(_Record):
    """The range of a quantity, such as a price, in which the answer of a search stays the best."""

    #: the quantity
    name: str
    down: End
    up: End
    #: the range in which no cell is better by more than 1 %
    near_down: End
    near_up: End


class Rival(End):
    """The second-best design, whose loss is ``factor`` times the loss of the answer.

    If it ``is_open``, another design may be closer, and ``by`` is the best simulated one.
    """

    #: no other design's loss is below this multiple of the answer's
    at_least: float | None = None
    #: probability that measurements rank the two designs like this; None without measured runs
    sure: float | None = None
    #: whether the measured runs are on other networks than these
    elsewhere: bool = False


class Regions(_Record):
    """The best design for each pair of values of two quantities, as proven by bounds."""

    #: names of the quantities
    x: str
    y: str
    #: factors of the quantities
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    #: coordinates of the winners, the answer first
    designs: tuple[Mapping[str, str], ...]
    #: numbers of the winners (ys, xs); -1 if too many cells may win to simulate all of them
    winners: tuple[tuple[int, ...], ...]


class Step(_Record):
    """A design on the frontier of time and cost."""

    #: maximum cost
    cost: float
    #: time of the best design found within the cost
    time: float
    #: time that no design within the cost beats
    bound: float


class Proof(_Record):
    """The result of a search among networks and plans.

    Values are in the first objective. For a portfolio they are in its measure, in which
    regrets count from one.
    """

    #: number of cells
    cells: int
    #: cells excluded by memory and computation, by loads in closed form, and by programs' bounds
    excluded: tuple[int, int, int]
    #: cells whose program was bounded
    bounded: int
    simulated: int
    #: infeasible and left-out cells, by reason
    refused: Mapping[str, int] = {}
    #: value of the best design
    best: float | None = None
    #: value that no cell beats
    bound: float | None = None
    #: cells bounded so far, the best value and the bound, as the search went on
    steps: tuple[tuple[int, float, float], ...] = ()
    #: ranges of quantities in which the answer stays the best
    changes: tuple[Change, ...] = ()
    #: the second-best design
    rival: Rival | None = None
    #: winners over two quantities
    regions: Regions | None = None
    #: steps of time and cost, the most expensive first; its first time and ``best`` may differ by
    #: the gap
    front: tuple[Step, ...] = ()

    def limit(self, cost: float | None) -> float | None:
        """Return the value that no design beats; of a frontier, no design up to this ``cost``."""
        if cost is None:
            return self.bound
        bounds = [step.bound for step in self.front if step.cost >= cost]
        return max(bounds, default=self.bound)


class Provenance(_Record):
    """The software and the machine with which rows were simulated."""

    #: version of dimsweep
    version: str
    #: commit, with a plus if files had changed
    git: str | None
    python: str
    packages: Mapping[str, str]
    machine: str
    #: day of the start (UTC)
    date: str | None = None


class StudyRecord(_Record):
    """The record of a study in ``study.json``."""

    name: str
    #: a remark for readers of the results
    note: str | None = None
    #: version of the engine's model
    model: int | None = None
    #: version of the columns
    rows: int | None = None
    objective: tuple[str, ...]
    #: descriptions of plug-ins' objectives, for readers without the plug-ins
    foreign: Mapping[str, Mapping[str, Any]] = {}
    grid: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    #: roles of axes and of searched keys
    roles: Mapping[str, str] = {}
    #: weights of the values of an axis among scenarios, if given
    weights: Mapping[str, Mapping[str, float]] = {}
    #: keys that the design of today changes
    baseline: Mapping[str, Any] = {}
    learns_from_slopes: bool = False
    warnings: tuple[str, ...] = ()
    #: number of cells of a large grid, whose records are in separate files
    n_streamed: int | None = None
    #: maximum number of trials; None in older records
    n_trials: int | None = None
    #: whether all searches are over; None in older records
    finished: bool | None = None
    cells: tuple[CellRecord, ...] = ()
    pruned: tuple[PrunedCell, ...] = ()
    #: a cell for each combination of the scenarios
    baselines: tuple[CellRecord, ...] = ()
    #: infeasible baselines
    no_baselines: tuple[PrunedCell, ...] = ()
    portfolios: tuple[PortfolioRecord, ...] = ()
    #: result of a search among networks and plans, once it is over
    proof: Proof | None = None
    #: an entry for each process that wrote rows
    provenance: tuple[Provenance, ...] = ()
    #: resolved configuration, without keys that change no row
    config: Mapping[str, Any]
    #: The identity of a study that an earlier version wrote, whose configuration is upgrade.
    _written: str | None = PrivateAttr(None)

    @property
    def is_current(self) -> bool:
        """True if this version of dimsweep wrote the study, and may add rows."""
        return self._written is None

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives; the first one ranks trials."""
        if any(name not in OBJECTIVES for name in self.objective):
            with suppress(*((DimsweepError,) if self.foreign else ())):
                load_plugins(self.config.get("plugins", ()))
        kept = {name: Objective.from_plain(plain) for name, plain in self.foreign.items()}
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
        """True if the study searches networks and plans, and records only cells not excluded."""
        return (self.config.get("space") or {}).get("network") is not None

    def config_of(self, cell: CellRecord) -> dict[str, Any]:
        """Return the resolved configuration of a cell: the study's, with the cell's values."""
        return {**self.config, **(cell.config or {})}

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The axes of the grid that are scenarios; the others are decisions."""
        roles = {axis: self.roles.get(axis) or default_role(axis) for axis in self.grid}
        return tuple(axis for axis in self.grid if roles[axis] == Role.SCENARIO)

    def scenario(self, coordinates: Mapping[str, str]) -> dict[str, str]:
        """Return the values of the axes in ``coordinates`` that are scenarios."""
        return {axis: coordinates[axis] for axis in self.scenarios}

    @property
    def is_shared(self) -> bool:
        """True if it searches one network for several workloads, each with a separate plan."""
        return self.is_certified and WORKLOAD in self.grid

    def decision(self, coordinates: Mapping[str, str]) -> dict[str, str]:
        """Return the values of the axes in ``coordinates`` that are decisions.

        If workloads share a network, the plan is left out.
        """
        axes = [axis for axis in self.grid if not (self.is_shared and is_plan_key(axis))]
        return {k: v for k, v in coordinates.items() if k in axes and k not in self.scenarios}

    def with_portfolio(self, number: int, own: tuple[float, ...], bound: float | None) -> Self:
        """Return the study with findings of its portfolio number ``number``, from 0."""
        portfolios = list(self.portfolios)
        portfolios[number] = portfolios[number].model_copy(update={"own": own, "bound": bound})
        return self.model_copy(update={"portfolios": tuple(portfolios)})

    def streamed(self, n: int) -> Self:
        """Return the record as that of a large grid of ``n`` cells, which other files list."""
        none = dict.fromkeys(("cells", "pruned", "baselines", "no_baselines"), ())
        return self.model_copy(update={"n_streamed": n, **none})

    def with_cells(self, cells: Sequence[CellRecord], pruned: Sequence[PrunedCell]) -> Self:
        """Return the record with a large grid's cells, and the cells of its current baseline."""
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
        """Identity of the study in its files: a hash of the inputs of its rows."""
        if self._written is not None:
            return self._written
        return identity(json.loads(self.model_dump_json(include={"config", "model", "rows"})))

    def to_json(self) -> bytes:
        """Return the text of ``study.json``, including a checksum of it."""
        node = json.loads(self.model_dump_json())
        return json.dumps(node | {"checksum": checksum(node)}, indent=1).encode()


_REPAIR_HINT = "sweep the study again: it sets the file aside and keeps all rows"


class DamagedStudyError(DimsweepError):
    """Error of a ``study.json`` that is damaged."""

    code = "damaged"


def read_study(folder: Place) -> StudyRecord:
    """Read the study in ``folder`` with its cells.

    Raises :class:`DimsweepError` if it is missing or damaged.
    """
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
    """Return whether a record lacks its checksum because the key's name is damaged."""
    return any(
        name not in StudyRecord.model_fields
        and value == checksum({key: each for key, each in node.items() if key != name})
        for name, value in node.items()
    )


def check_same(old: StudyRecord, new: StudyRecord, folder: Place) -> None:
    """Raise :class:`DimsweepError` if ``new`` must not add rows to ``old``.

    The error lists the differences, or names the earlier version that wrote ``old``.
    """
    if not old.is_current:
        raise DimsweepError(
            f"the results have format {old.rows}, of an earlier version; this one (format "
            f"{ROWS_VERSION}) reads them, but cannot resume them",
            where=str(folder),
            hint="sweep under another name (name=...); these results stay as they are",
            code="unsupported",
        )
    before, after = flatten(encode_order(old.config)), flatten(encode_order(new.config))
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
