"""Run the fault suite and print its figures: python -m tests.faults [RUNS [DAMAGES]], or
python -m tests.faults doors [INPUTS [DOOR [NUMBER]]] for mutated files and texts alone.

First all faults against the promises of docs/results.md, each the same each time; then as many
studies as DAMAGES have a file damaged, and as many sweeps as RUNS have an actor, a node, the head
or the driver killed at a random moment; each is finished and compared with an undisturbed one.
Ends with a table: promise, faults tried, held.  A third word leaves out what is not random.
Without any word 10,000 mutated inputs come in by all doors before (tests/faults/doors).
"""

import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.damages import damage_at_random
from tests.faults.doors import __main__ as doors
from tests.faults.kills import kill_at_random
from tests.faults.nodes import ENVIRONMENT
from tests.faults.promise import promises
from tests.faults.suite import FAULTS

_DAMAGE, _KILL = 4, 8  # the promises that damages and kills at random are against


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in counts.most_common())


class Held:
    """How many faults were tried against each promise, and how often it held."""

    def __init__(self) -> None:
        self.tried, self.held = Counter[int](), Counter[int]()

    def add(self, promise: int, tried: int, held: int) -> None:
        """Count some faults."""
        self.tried[promise] += tried
        self.held[promise] += held

    def table(self) -> str:
        """All promises."""
        lines = [f"{'tried':>6} {'held':>6}  promise"]
        lines += [
            f"{self.tried[number]:6} {self.held[number]:6}  {number}. {text.rstrip('.')}"
            for number, text in promises().items()
        ]
        return "\n".join(lines)


def keep_promises(scratch: Path, held: Held) -> None:
    """Try each fault of the suite once."""
    for i, fault in enumerate(FAULTS):
        (folder := scratch / str(i)).mkdir(parents=True)
        try:
            tried = fault.act(folder) or 1
        except (Exception, pytest.fail.Exception) as error:  # the latter where nothing was raised
            held.add(fault.promise, 1, 0)
            what = (str(error).splitlines() or [""])[0][:200]
            said = f"BROKEN {fault.promise}: {fault.name}: {type(error).__name__}: {what}"
            print(said, flush=True)
        else:
            held.add(fault.promise, tried, tried)


def damage(times: int, scratch: Path, held: Held) -> None:
    """Damage studies, and print what came of it."""
    damaged = damage_at_random(times, scratch)
    print(f"{times} damages: {_listed(damaged.done)}")
    print(
        f"  named: {damaged.named}, changed no row: {damaged.harmless}, read as other rows: "
        f"{damaged.wrong}; equal to the undisturbed study once finished: {damaged.equal}",
        flush=True,
    )
    held.add(_DAMAGE, times, min(damaged.equal, times - damaged.wrong))


def kill(runs: int, scratch: Path, held: Held) -> None:
    """Kill parts of sweeps, and print what came of it."""
    killed = kill_at_random(runs, scratch)
    print(f"{runs} runs in which was killed: {_listed(killed.killed)}")
    print(
        f"  equal to the undisturbed study: {killed.equal}, rows doubled: {killed.doubled}, rows "
        f"missing: {killed.missing}"
    )
    print(f"  {_listed(killed.endings)}")
    if waits := killed.waits:
        print(
            "  from the loss of an actor or a node to the next row: "
            f"{statistics.median(waits):.1f} s in the median, {max(waits):.1f} s at most"
        )
    told = sum(n for each, n in killed.endings.items() if "debug" in each)
    held.add(_KILL, runs, min(killed.equal, runs - told))


def main(runs: int, damages: int, *, only_random: bool = False) -> bool:
    """Print what came of all; whether it is what it must be."""
    os.environ.update(ENVIRONMENT)
    held = Held()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if not only_random:
            keep_promises(scratch / "promises", held)
        if damages:
            damage(damages, scratch / "damages", held)
        if runs:
            kill(runs, scratch / "kills", held)
    print(held.table())
    return held.tried == held.held


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["doors"]:
        sys.exit(not doors.main(words[1:]))
    closed = bool(words) or doors.main([])
    runs, damages = ([int(word) for word in words[:2]] + [100, 200][len(words[:2]) :])[:2]
    sys.exit(not (main(runs, damages, only_random=len(words) > 2) and closed))
