"""Files of a study, damaged at random: each damage is named, and no row is changed by it."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.run.loop import Progress, StudyPlan
from tests.support.studies import planned, run

TRIALS = 1200
_STUDY = (
    "study=libra_gpt3_4d",
    "search=random",
    "collective.chunks=8",
    "search.batch=100",
    f"budget.trials={TRIALS}",
    "what_if=null",  # those around what was best in a half stay, unless they are lost
)


@dataclass
class Found:
    """What came of the damages: ``wrong`` were read as other rows, which must not be."""

    done: Counter[str] = field(default_factory=Counter)
    named: int = 0
    harmless: int = 0
    wrong: int = 0
    equal: int = 0


def damage_at_random(times: int, scratch: Path) -> Found:
    """Damage a copy of a study as often as ``times``, load it, and go on with it."""
    plan, found = planned(_STUDY, scratch / "whole"), Found()
    interrupted = scratch / "interrupted"
    half = planned([*_STUDY, f"budget.trials={TRIALS // 2}"], scratch / "whole")
    run(half)  # the rows of a part

    def keep(progress: Progress) -> None:  # the state of a sweep that is killed: a part and a log
        if progress.done > TRIALS * 3 // 4 and not interrupted.exists():
            shutil.copytree(plan.folder, interrupted)

    run(plan, watch=keep)
    whole = load(plan.folder)
    for i in range(times):
        draw = random.Random(i)
        copy = planned(_STUDY, scratch / f"damage{i}")
        shutil.copytree(draw.choice([interrupted, plan.folder]), copy.folder)
        before = load(copy.folder)
        _damage_once(draw, copy, before, found)
        run(copy)
        found.equal += load(copy.folder).equals(whole)
        shutil.rmtree(scratch / f"damage{i}")
    return found


def _damage_once(draw: random.Random, copy: StudyPlan, before: pa.Table, found: Found) -> None:
    file = draw.choice([f for f in sorted(copy.folder.iterdir()) if f.suffix and f.stat().st_size])
    kind = draw.choice(sorted(DAMAGES))
    name = DAMAGES[kind](draw, file)
    found.done[kind] += 1
    try:
        seen = load(copy.folder)
    except DimsweepError as error:
        found.named += name in str(error)
        found.wrong += name not in str(error)
        return
    with Ledger(copy.folder, copy.study, copy.schema) as ledger:
        told = any(name in note for note in ledger.notes)
    if told:  # such as a tail that is cut off, which is a row in flight to a reader
        found.named += 1
    elif seen.equals(before):
        found.harmless += 1
    else:
        found.wrong += 1
        print(f"  {kind} of {file.name}: {len(seen)} rows are read, {len(before)} before")


def _flip(draw: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    bit = draw.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return file.name


def _cut(draw: random.Random, file: Path) -> str:
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data))])
    return file.name


def _zeros(draw: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    at = draw.randrange(len(data))
    n = min(len(data) - at, draw.randint(1, 4096))
    data[at : at + n] = bytes(n)
    file.write_bytes(data)
    return file.name


def _copied(draw: random.Random, file: Path) -> str:
    copy = file.with_name(f"{file.stem} ({draw.randint(1, 3)}){file.suffix}")
    shutil.copy(file, copy)
    return copy.name


DAMAGES: dict[str, Callable[[random.Random, Path], str]] = {
    "a flipped bit": _flip,
    "a tail cut off": _cut,
    "zeros": _zeros,
    "a copy under another name": _copied,
}
