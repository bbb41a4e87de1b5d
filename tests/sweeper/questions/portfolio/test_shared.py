"""One network for several workloads: on random designs, the same answer as of all of them."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dimsweep.engine.bound import Measure, Weighing
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.questions.networks.search import CellRun, DesignSearch
from dimsweep.sweeper.questions.portfolio import networks as module
from dimsweep.sweeper.questions.portfolio.networks import SharedSearch
from tests.support.examples import examples

NETWORKS, SHAPES = 12, [range(n, n + 3) for n in range(0, 12, 3)]
FATES = ("ok", "cannot be", "fails", "is left out")


class Table:
    """Designs of one workload: what levels say of each of their cells, and what becomes of it."""

    def __init__(self, draw: np.random.Generator, part: Any, config: Any, trouble: bool) -> None:
        self.part, self.composed = part, SimpleNamespace(config=config)
        self.factors, self.refused = part.factors, Counter[str]()
        own, self._of, first = [], [], [0]
        for _ in range(draw.integers(1, 9)):
            shapes = [shape for shape in SHAPES if draw.random() < 0.5] or SHAPES[:1]
            self._of += [n for shape in shapes for n in shape]
            first.append(len(self._of))
            computed = draw.uniform(1, 2)
            own.append(computed)
        n = len(self._of)
        shares = np.sort(draw.uniform(0.7, 1.1, (3, n)).clip(0, 1), axis=0)
        suits = draw.uniform(1, 2, NETWORKS)[self._of]
        self.seconds = np.repeat(own, np.diff(first)) * suits * draw.uniform(1, 1.5, n)
        rows = [slice(*pair) for pair in pairwise(first)]
        self.loads, self.program, self.exact = shares * self.seconds
        least = np.array([self.loads[row].min() * draw.uniform(0.7, 1) for row in rows])
        self.cells = SimpleNamespace(first=np.array(first), compute_seconds=least)
        self.floors = least * [self._factor(row).min() for row in rows]
        chances = [0.7, 0.1, 0.1, 0.1] if trouble else [1.0, 0, 0, 0]
        self.fate = draw.choice(FATES, n, p=chances)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._of)

    def _factor(self, cells: slice) -> np.ndarray:
        return np.asarray(self.factors[self._of[cells]])

    def networks(self, cells: range) -> np.ndarray:
        return np.array(self._of)[cells.start : cells.stop]

    def bounds(self, i: int) -> np.ndarray:
        return np.asarray(self.loads[self._rows[i]] * self._factor(self._rows[i]))

    def same_program_cells(self, number: int) -> range:
        first = number - self._of[number] % 3
        return range(first, first + 3)

    def program_bounds(self, number: int) -> np.ndarray:
        own = self.same_program_cells(number)
        return np.asarray(
            self.program[own.start : own.stop] * self._factor(slice(own.start, own.stop))
        )

    def least(self, of: np.ndarray, fates: tuple[str, ...]) -> np.ndarray:
        """The least on each network, of cells that have one of these fates."""
        found = np.full(NETWORKS, np.inf)
        values = np.where(np.isin(self.fate, fates), of, np.inf)
        np.minimum.at(found, self._of, values * self._factor(slice(None)))
        return found


class Ledger:
    """What a search wrote down, in memory; it is also the driver, which nobody watches, and ends
    the run once there are ``most`` rows."""

    def __init__(self, most: int = 10_000) -> None:
        self.rows, self.most = dict[int, Any](), most
        self._closed, self._bounds = dict[int, float](), dict[int, np.ndarray]()
        self._pruned = dict[int, PrunedCell]()
        self.progress = SimpleNamespace(pruned=0, bound=None)

    ledger = property(lambda self: self)
    index = property(lambda self: SimpleNamespace(values=lambda places: self.rows[places[0]]))

    def simulate(self, cell: int, loss: float) -> np.ndarray:
        assert cell not in self.rows, "no cell is simulated twice"
        if len(self.rows) == self.most:
            raise KeyboardInterrupt
        self.rows[cell] = np.array([[loss]])
        return np.asarray(self.rows[cell])

    def find_ended(self, cell: int, _: object) -> np.ndarray | None:
        return np.array([cell]) if cell in self.rows else None

    def show(self) -> None: ...
    def count_ended(self, places: object) -> None: ...
    def find_pruned(self, cell: int) -> PrunedCell | None:
        return self._pruned.get(cell)

    def add_pruned(self, cell: int, record: PrunedCell) -> None:
        self._pruned[cell] = record

    def find_closing_bound(self, cell: int) -> float | None:
        return self._closed.get(cell)

    def add_closed(self, cell: int, bound: float) -> None:
        self._closed[cell] = bound

    def find_bounds(self, first: int) -> np.ndarray | None:
        return self._bounds.get(first)

    def add_bounds(self, first: int, bounds: np.ndarray) -> None:
        self._bounds[first] = bounds


class Searched(DesignSearch):
    """A search whose cells are simulated by a look into their table."""

    def _plan(self, number: int, bound: float, enough: Callable[[float], bool]) -> CellRun | None:
        table = cast(Any, self.designs)
        if table.fate[number] == "cannot be":
            pruned = PrunedCell(coordinates={}, error="", reason="no cells")
            self._ledger.add_pruned(self.ledger_number(number), pruned)
            self._prune(number, pruned.reason)
            return None
        if table.fate[number] == "is left out":
            self._left_out.add(number)
            self._close(number, bound)
            return None
        factor = table._factor(slice(number, number + 1))[0]
        if enough(bound := float(table.exact[number] * factor)):
            self._ledger.add_closed(self.ledger_number(number), bound)
            self._close(number, bound)
            return None
        loss = table.seconds[number] * factor if table.fate[number] == "ok" else np.nan
        work = lambda: cast(Any, self._ledger).simulate(self.ledger_number(number), loss)  # noqa: E731
        return CellRun(number, bound, work=cast(Any, work))


def search(
    seed: int,
    weighing: Weighing,
    gap: float,
    trials: int,
    *,
    trouble: bool,
    ledger: Ledger | None = None,
) -> Any:
    draw, designs = np.random.default_rng(seed), list[Table]()
    factors = draw.uniform(1, 2, NETWORKS) if draw.random() < 0.5 else np.ones(NETWORKS)
    budget = SimpleNamespace(gap=gap, trials=trials)
    config = SimpleNamespace(objective=(TIME,), budget=budget, recheck=SimpleNamespace(rungs=()))
    for k in range(len(weighing.share)):
        part = SimpleNamespace(first=100 * k, factors=factors, coordinates={"workload": str(k)})
        designs.append(Table(draw, part, config, trouble))
    shared = SimpleNamespace(
        composed=SimpleNamespace(config=config),
        designs=designs,
        weighing=weighing,
        n_networks=NETWORKS,
        refused=Counter(),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DesignSearch", Searched)
        return designs, SharedSearch(cast(Any, shared), cast(Any, ledger or Ledger()))


def result_of(search: SharedSearch) -> Any:
    """The result of a search that is told the values of its cells in order, as by the loop."""
    in_flight = list[CellRun]()
    for begun in search.steps():
        if begun is None:
            first = in_flight.pop(0)
            first.values = cast(Any, first.work)()
        else:
            in_flight.append(begun)
    return search.result


WEIGHING = st.builds(
    Weighing.build,
    st.sampled_from([[1.0], [1.0, 2.0], [1.0, 0.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    st.sampled_from(list(Measure)),
    st.sampled_from([0.0, 0.6]),
)
SEEDS = st.integers(0, 2**32 - 1)


@examples(400)
@given(SEEDS, WEIGHING, st.sampled_from([0.0, 0.05]))
@example(113, Weighing.build([1, 1, 1], "worst_regret"), 0.0)  # whose best has another plan yet
@example(420, Weighing.build([1, 1, 1], "weighted_time"), 0.0)  # whose best has waited for turns
def test_it_is_the_best_of_all_networks_with_the_best_plan_of_each_workload(
    seed: int, weighing: Weighing, gap: float
) -> None:
    designs, searched = search(seed, weighing, gap, 1000, trouble=False)
    losses = np.stack([own.least(own.seconds, FATES) for own in designs], axis=-1)
    if not np.isfinite(losses).all(axis=-1).any():
        return
    proof, record = result_of(searched)
    assert (np.array(record.own) <= losses.min(axis=0) * (1 + gap)).all()
    unit = record.own if weighing.uses_regrets else 1.0
    values = weighing.mean(losses / unit)
    assert proof.bound <= values.min() * (1 + 1e-12)
    assert values.min() <= proof.best * (1 + 1e-12)
    assert proof.best <= proof.bound * (1 + gap) * (1 + 1e-12)
    assert record.bound == proof.bound - (1.0 if weighing.uses_regrets else 0.0)
    # The best plan of each workload is known there, and on the networks that each has alone.
    winner = None
    for cells in (record.cells, *record.alone):
        networks = set[int]()
        for k, (number, own) in enumerate(zip(cells, designs, strict=True)):
            if number >= 0:
                n = number - own.part.first
                network = own._of[n]
                networks.add(network)
                loss = own.seconds[n] * own.factors[network]
                assert loss <= losses[network, k] * (1 + gap) * (1 + 1e-12)
        (network,) = networks
        winner = network if winner is None else winner
    assert values[winner] == pytest.approx(values.min(), rel=gap + 1e-9)


@examples(400)
@given(SEEDS, WEIGHING, st.sampled_from([0.0, 0.05]), st.sampled_from([1, 3, 1000]))
def test_nothing_is_below_its_bound_whatever_fails_or_is_left_out(
    seed: int, weighing: Weighing, gap: float, trials: int
) -> None:
    designs, searched = search(seed, weighing, gap, trials, trouble=True)
    try:
        proof, record = result_of(searched)
    except module.DimsweepError as error:
        assert error.where == "portfolio.workloads"
        return
    unit = record.own if weighing.uses_regrets else 1.0
    # What fails or is left out may be as good as the bound that is known of it.
    known = [
        np.minimum(own.least(own.seconds, ("ok",)), own.least(own.exact, ("fails", "is left out")))
        for own in designs
    ]
    assert proof.bound <= weighing.mean(np.stack(known, axis=-1) / unit).min() * (1 + 1e-12)
    assert proof.bound <= proof.best
    there = [own.least(own.seconds, ("ok",)) for own in designs]
    assert proof.best >= weighing.mean(np.stack(there, axis=-1) / unit).min() * (1 - 1e-12)
    assert proof.cells == sum(proof.excluded) + proof.simulated + sum(proof.refused.values())


@examples(200)
@given(SEEDS, WEIGHING, st.sampled_from([0.0, 0.1]), st.sampled_from([1, 3, 1000]), st.data())
def test_a_stopped_search_comes_to_the_same_end(
    seed: int, weighing: Weighing, gap: float, trials: int, data: st.DataObject
) -> None:
    """And simulates no cell twice, wherever it was stopped."""

    def end(ledger: Ledger) -> object:
        _, searched = search(seed, weighing, gap, trials, trouble=True, ledger=ledger)
        try:
            return result_of(searched)
        except module.DimsweepError as error:
            return str(error)

    whole = Ledger()
    ends = end(whole)
    part = Ledger(data.draw(st.integers(0, len(whole.rows))))
    with suppress(KeyboardInterrupt):
        end(part)
    part.most = 10_000
    assert end(part) == ends
    assert sorted(part.rows) == sorted(whole.rows)
    assert end(part) == ends
