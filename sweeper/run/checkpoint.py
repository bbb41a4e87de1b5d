"""The checkpoint of a cell's search in the ledger: the sampler's state and the best designs."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.ledger import Compact, Ledger
from dimsweep.sweeper.search import STATE_VERSION, Resumable, State, sampler_name
from dimsweep.sweeper.space.trials import (
    Floats,
    Integers,
    Trial,
    Trials,
    trial_from_plain,
    trial_to_plain,
)
from dimsweep.sweeper.study.cell import CellPlan

_MIN_INTERVAL = 5.0  # seconds between two bookmarks
_MAX_SHARE = 50  # times as long as writing one takes, if that is more
_MIN_SEARCH_TIME = 1.0  # seconds of a search that had better not be repeated


class Incumbents:
    """The best distinct designs of a cell so far: one, or as many as are rechecked."""

    def __init__(self, cell: CellPlan) -> None:
        self._again = cell.recheck
        self._sign = cell.objective[0].sign
        self._kept: list[tuple[float, int, Trial]] = []

    @property
    def value(self) -> float | None:
        """Best value of the first objective; None if no trial is complete."""
        return self._sign * self._kept[0][0] if self._kept else None

    @property
    def trial(self) -> Trial:
        """The best trial; at least one trial must be complete."""
        return self._kept[0][2]

    def add(self, trials: Trials, values: Floats) -> None:
        """Add ``trials``, whose numbers follow the earlier ones, and their values (N, K)."""
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
        """Return the designs to recheck, the best first."""
        return [trial for _, _, trial in self._kept[: self._again]]

    def state(self) -> list[Any]:
        """Return plain data from which :meth:`restore` restores the best designs."""
        return [[loss, int(number), trial_to_plain(trial)] for loss, number, trial in self._kept]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore the best designs from the data of :meth:`state`."""
        self._kept = [(loss, number, trial_from_plain(design)) for loss, number, design in state]


class SearchDigest:
    """A hash of the rows that a search has learnt from.

    It does not depend on the sizes of batches.
    """

    def __init__(self) -> None:
        self._columns = [hashlib.blake2b(digest_size=16) for _ in range(3)]

    def add(self, *columns: NDArray[Any]) -> None:
        """Add the keys, values and slopes (N, ...) of the next rows."""
        for own, column in zip(self._columns, columns, strict=True):
            own.update(np.ascontiguousarray(column).tobytes())

    @property
    def text(self) -> str:
        """Hash of all added rows, in hexadecimal digits."""
        return "".join(own.hexdigest() for own in self._columns)


class SearchCheckpoint:
    """The checkpoint of a cell's search: its ``sampler`` and its best designs (``incumbents``).

    If the ledger has a bookmark, it restores both as they were after the first ``n_trials`` trials,
    whose rows are at ``places``. The bookmark is valid if the ledger still has the rows that the
    search learnt from, in the same order. If rows are missing or were simulated again, the search
    starts anew.
    """

    def __init__(self, cell: CellPlan, ledger: Ledger) -> None:
        self._cell, self._ledger, self._number = cell, ledger, cell.cell.number
        self.sampler, self.incumbents = cell.sampler(), Incumbents(cell)
        self.n_trials, self.places = 0, np.empty(0, dtype=np.int32)
        self._digest, self._seen = SearchDigest(), np.zeros(0, dtype=bool)
        self._end: State | None = None  # of the sampler, before what a larger budget changes
        found = ledger.find_bookmark(self._number)
        if found is not None and found["search"] == self._search:
            self._resume(found)
        self._written_at, self._took = time.monotonic(), 0.0

    @property
    def _search(self) -> list[object]:
        """Settings that a bookmark must have in common with this search."""
        name = sampler_name(self._cell.config, self._cell.space)
        return [name, STATE_VERSION, self._cell.recheck]

    def _resume(self, found: State) -> None:
        n = found["told"]
        places = self._ledger.trials(self._number, n)
        digest = _hash_rows(self._ledger, places)
        if digest.text != found["hash"]:
            return
        if n < self._cell.budget and not self._cell.is_settled(self._find_best_values(places)):
            if found["sampler"] is None:
                return
            assert isinstance(self.sampler, Resumable)
            self.sampler.restore(found["sampler"])
            if n != found["sampler"]["asked"]:
                n = found["sampler"]["asked"]
                places = self._ledger.trials(self._number, n)
                digest = _hash_rows(self._ledger, places)
        self.incumbents.restore(found["best"])
        self.n_trials, self.places, self._digest = n, places, digest
        self._find_new(places)

    def _find_best_values(self, places: Compact) -> Sequence[float] | None:
        best, sign = None, self._cell.objective[0].sign
        for _, values, _ in self._ledger.iterate_results(places):
            complete = values[~np.isnan(values).any(axis=1)]
            if len(complete):
                one = complete[np.argmin(sign * complete[:, 0])].tolist()
                best = one if best is None or sign * one[0] < sign * best[0] else best
        return best

    def _find_new(self, places: Compact | Integers) -> Compact | Integers:
        """Return the rows that the search has not seen, and mark them as seen.

        A design that the search proposes again has no second row.
        """
        new = places[np.sort(np.unique(places, return_index=True)[1])]
        if len(new) and new.max() >= len(self._seen):
            self._seen = np.append(self._seen, np.zeros(2 * int(new.max()) + 1, dtype=bool))
        new = new[~self._seen[new]]
        self._seen[new] = True
        return new

    def tell(self, places: Integers) -> None:
        """Record that the search learnt from the rows at ``places``.

        A bookmark is written periodically.
        """
        self.n_trials += len(places)
        for rows in self._ledger.iterate_results(self._find_new(places)):
            self._digest.add(*rows)
        if time.monotonic() - self._written_at > max(_MIN_INTERVAL, _MAX_SHARE * self._took):
            self._write()

    def prepare_last_round(self) -> None:
        """Keep the sampler's state before the budget shortens or drops a batch.

        A study with a larger budget resumes from this state.
        """
        if self._end is None:
            self._end = self._sampler_state()

    def _sampler_state(self) -> State | None:
        if not isinstance(self.sampler, Resumable):
            return None
        return self.sampler.state(self.n_trials)

    def finish(self) -> None:
        """Record that the search has ended."""
        self._ledger.end_search(
            self._number, self.n_trials, _describe_search(self._cell.config, self._digest)
        )
        if time.monotonic() - self._written_at > _MIN_SEARCH_TIME:
            self._write()

    def _write(self) -> None:
        start = time.monotonic()
        bookmark = {
            "search": self._search,
            "told": self.n_trials,
            "hash": self._digest.text,
            "sampler": self._end or self._sampler_state(),
            "best": self.incumbents.state(),
        }
        self._ledger.write_bookmark(self._number, bookmark)
        self._written_at = time.monotonic()
        self._took = self._written_at - start


def find_ended_rows(ledger: Ledger, config: Config, cell: int) -> Compact | None:
    """Return the places of the rows of a cell whose search an earlier run completed, or None.

    The result is None if an input of the search has changed, if the grid is not large, or if
    designs are rechecked.
    """
    if config.recheck.rungs:
        return None
    return ledger.find_ended(
        cell, lambda places: _describe_search(config, _hash_rows(ledger, places))
    )


def _describe_search(config: Config, digest: SearchDigest) -> str:
    """Return a text that identifies the search's settings and the rows that it learnt from."""
    return json.dumps([STATE_VERSION, config.text["budget"], config.text["recheck"], digest.text])


def _hash_rows(ledger: Ledger, places: Compact) -> SearchDigest:
    digest = SearchDigest()
    for rows in ledger.iterate_results(places):
        digest.add(*rows)
    return digest
