"""The checkpoint of a cell's search: its sampler and its best designs, kept in the ledger."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.cells import SearchDigest
from dimsweep.sweeper.ledger.ledger import Compact, Ledger
from dimsweep.sweeper.search import STATE_VERSION, Resumable, State, sampler_name
from dimsweep.sweeper.space.trials import Floats, Integers, Trial, Trials, plain, trial_of
from dimsweep.sweeper.study.cell import CellPlan

_EVERY = 5.0  # seconds between two bookmarks
_RARELY = 50  # times as long as writing one takes, if that is more
_AT_ONCE = 100_000  # rows of which a copy is made
_WORTH = 1.0  # seconds of a search that had better not be repeated


class Incumbents:
    """The best designs of a cell so far, one or as many as are to be looked at again, each once."""

    def __init__(self, cell: CellPlan) -> None:
        self._again = cell.recheck
        self._sign = cell.objective[0].sign
        self._kept: list[tuple[float, int, Trial]] = []

    @property
    def value(self) -> float | None:
        """The best value of the first objective; ``None`` if no trial is complete."""
        return self._sign * self._kept[0][0] if self._kept else None

    @property
    def trial(self) -> Trial:
        """The best trial; there must be one."""
        return self._kept[0][2]

    def add(self, trials: Trials, values: Floats) -> None:
        """Look at trials with higher numbers than those before, and their values (N, K)."""
        losses = self._sign * values[:, 0]
        full = len(self._kept) == max(self._again, 1)
        found = [
            (float(losses[i]), trials[i].number, trials[i])
            for i in np.flatnonzero(losses < (self._kept[-1][0] if full else np.inf)).tolist()
        ]
        designs: dict[object, tuple[float, int, Trial]] = {}
        for entry in sorted([*self._kept, *found], key=lambda entry: entry[:2]):
            if len(designs) == max(self._again, 1):
                break
            designs.setdefault(entry[2].design, entry)
        self._kept = list(designs.values())

    def designs(self) -> list[Trial]:
        """The designs to look at again, the best first."""
        return [trial for _, _, trial in self._kept[: self._again]]

    def state(self) -> list[Any]:
        """What :meth:`restore` needs, as plain data."""
        return [[loss, int(number), plain(trial)] for loss, number, trial in self._kept]

    def restore(self, state: Sequence[Any]) -> None:
        """Have the best that another one had."""
        self._kept = [(loss, number, trial_of(own)) for loss, number, own in state]


class SearchCheckpoint:
    """The ``sampler`` of a cell's search and its ``incumbents``: at the beginning, or, where the
    ledger has a bookmark, after the first ``n_trials`` trials, whose rows are at ``places``.

    A bookmark is valid if the rows have the keys, values and slopes, in the order, that the search
    was told.  Rows that are missing, or were simulated again, make the search begin anew.
    """

    def __init__(self, cell: CellPlan, ledger: Ledger) -> None:
        self._cell, self._ledger, self._number = cell, ledger, cell.cell.number
        self.sampler, self.incumbents = cell.sampler(), Incumbents(cell)
        self.n_trials, self.places = 0, np.empty(0, dtype=np.int32)
        self._told, self._seen = SearchDigest(), np.zeros(0, dtype=bool)
        self._end: State | None = None  # of the sampler, before what a larger budget changes
        found = ledger.kept(self._number)
        if found is not None and found["search"] == self._search:
            self._take_up(found)
        self._kept_at, self._took = time.monotonic(), 0.0

    @property
    def _search(self) -> list[object]:
        """What a bookmark must agree in."""
        name = sampler_name(self._cell.config, self._cell.space)
        return [name, STATE_VERSION, self._cell.recheck]

    def _take_up(self, found: State) -> None:
        n = found["told"]
        places = self._ledger.trials(self._number, n)
        told = _hash(self._ledger, places)
        if told.text != found["hash"]:
            return
        if n < self._cell.budget and not self._cell.is_settled(self._best(places)):
            if found["sampler"] is None:
                return
            assert isinstance(self.sampler, Resumable)
            self.sampler.restore(found["sampler"])
            if n != found["sampler"]["asked"]:
                n = found["sampler"]["asked"]
                places = self._ledger.trials(self._number, n)
                told = _hash(self._ledger, places)
        self.incumbents.restore(found["best"])
        self.n_trials, self.places, self._told = n, places, told
        self._grow(places)
        for own in in_pieces(places):
            self._seen[own] = True

    def _best(self, places: Compact) -> Sequence[float] | None:
        best, sign = None, self._cell.objective[0].sign
        for own in in_pieces(places):
            values = self._ledger.known.values(own)
            complete = values[~np.isnan(values).any(axis=1)]
            if len(complete):
                one = complete[np.argmin(sign * complete[:, 0])].tolist()
                best = one if best is None or sign * one[0] < sign * best[0] else best
        return best

    def _see(self, places: Integers) -> Integers:
        """Those of the rows that are new to the search; a design that it asks for again has none
        of its own."""
        new = places[np.sort(np.unique(places, return_index=True)[1])]
        self._grow(new)
        new = new[~self._seen[new]]
        self._seen[new] = True
        return new

    def _grow(self, places: Compact | Integers) -> None:
        """Have room for what is known of rows at these places."""
        if len(places) and places.max() >= len(self._seen):
            self._seen = np.append(self._seen, np.zeros(2 * int(places.max()) + 1, dtype=bool))

    def tell(self, places: Integers) -> None:
        """Note that the search was told the rows at ``places``; periodically write a bookmark."""
        self.n_trials += len(places)
        new, known = self._see(places), self._ledger.known
        self._told.add(known.keys(new), known.values(new), known.slopes(new))
        if time.monotonic() - self._kept_at > max(_EVERY, _RARELY * self._took):
            self._keep()

    def meet_the_budget(self) -> None:
        """Keep the sampler's state from before a batch that the budget cuts short or leaves out: a
        study with a larger budget resumes from there."""
        if self._end is None:
            self._end = self._state()

    def _state(self) -> State | None:
        """The sampler's, if there is one to go on from."""
        if not isinstance(self.sampler, Resumable):
            return None
        return self.sampler.state(self.n_trials)

    def finish(self) -> None:
        """Record that the search is over."""
        self._ledger.leave(self._number, self.n_trials, _how(self._cell.config, self._told))
        if time.monotonic() - self._kept_at > _WORTH:
            self._keep()

    def _keep(self) -> None:
        start = time.monotonic()
        bookmark = {
            "search": self._search,
            "told": self.n_trials,
            "hash": self._told.text,
            "sampler": self._end or self._state(),
            "best": self.incumbents.state(),
        }
        self._ledger.keep(self._number, bookmark)
        self._kept_at = time.monotonic()
        self._took = self._kept_at - start


def ended(ledger: Ledger, config: Config, cell: int) -> Compact | None:
    """Where the rows of a cell's search are that an earlier run ended, if nothing has changed that
    it depends on; of large grids only, and where no design is looked at again."""
    if config.recheck.rungs:
        return None
    return ledger.finished(cell, lambda places: _how(config, _hash(ledger, places)))


def _how(config: Config, told: SearchDigest) -> str:
    """What a search was, and what it had been told."""
    return json.dumps([STATE_VERSION, config.text["budget"], config.text["recheck"], told.text])


def in_pieces(places: Compact) -> Iterator[Integers]:
    """The places of rows, some at a time, since of millions no copy of what is known is made."""
    for start in range(0, len(places), _AT_ONCE):
        yield places[start : start + _AT_ONCE].astype(np.int64)


def _hash(ledger: Ledger, places: Compact) -> SearchDigest:
    told, known = SearchDigest(), ledger.known
    for own in in_pieces(places):
        told.add(known.keys(own), known.values(own), known.slopes(own))
    return told
