"""Run the fault suite and print its figures: python -m tests.faults [RUNS [DAMAGES]].

As many sweeps as RUNS have an actor, a node, the head or the driver killed at a random moment, and
as many studies as DAMAGES a file damaged; each is then finished and compared with an undisturbed
one.  All is seeded, though when a kill comes depends on the machine.
"""

import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.damages import damage_at_random
from tests.faults.kills import kill_at_random
from tests.faults.nodes import ENVIRONMENT


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in counts.most_common())


def main(runs: int, damages: int) -> bool:
    """Print what came of all; whether it is what it must be."""
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as scratch:
        damaged = damage_at_random(damages, Path(scratch, "damages"))
        print(f"{damages} damages: {_listed(damaged.done)}")
        print(
            f"  named: {damaged.named}, changed no row: {damaged.harmless}, read as other rows: "
            f"{damaged.wrong}; equal to the undisturbed study once finished: {damaged.equal}",
            flush=True,
        )
        killed = kill_at_random(runs, Path(scratch, "kills"))
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
    whole = damaged.equal == damages and killed.equal == runs
    return whole and not damaged.wrong and not any("debug" in each for each in killed.endings)


if __name__ == "__main__":
    runs, damages = ([int(word) for word in sys.argv[1:]] + [100, 200][len(sys.argv) - 1 :])[:2]
    sys.exit(not main(runs, damages))
