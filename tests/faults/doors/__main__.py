"""Try mutated inputs at all doors: python -m tests.faults doors [INPUTS [DOOR [NUMBER]]].

As many INPUTS as are asked for (10,000), over all doors or those with DOOR in their name; NUMBER
tries one input again and prints its traceback.  Ends with a table of counts by door.
"""

import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.faults.doors.every import DOORS
from tests.faults.doors.limits import Found, enter_all

INPUTS = 10_000


def try_doors(inputs: int, scratch: Path, name: str = "") -> dict[str, Found]:
    """What came of inputs by door; those that fail are printed as they do."""
    names = [each for each in DOORS if name in each]
    per_door = -(-inputs // len(names))
    found = {each: Found() for each in names}
    every = ((each, number) for each in names for number in range(per_door))
    seen = Counter[tuple[str, str]]()
    for door, number, outcome, said, seconds in enter_all(every, scratch):
        of = found[door]
        of.tried += 1
        of.accepted += outcome == "accepted"
        of.refused += outcome == "refused"
        of.slowest = max(of.slowest, seconds)
        if outcome == "failed":
            of.wrong[number] = said
            seen[door, said] += 1
            if seen[door, said] == 1:
                print(f"BROKEN {door}, {number}: {said}", flush=True)
    return found


def table(found: dict[str, Found]) -> str:
    """The counts by door, and of all."""
    lines = [f"{'tried':>6} {'accepted':>9} {'refused':>8} {'failed':>7} {'slowest':>9}  door"]
    for name, each in found.items():
        lines.append(
            f"{each.tried:6} {each.accepted:9} {each.refused:8} {len(each.wrong):7} "
            f"{each.slowest:7.2f} s  {name}"
        )
    sums = [sum(getattr(each, key) for each in found.values()) for key in _COUNTS]
    failed = sum(len(each.wrong) for each in found.values())
    slowest = max(each.slowest for each in found.values())
    lines.append(f"{sums[0]:6} {sums[1]:9} {sums[2]:8} {failed:7} {slowest:7.2f} s  all doors")
    return "\n".join(lines)


_COUNTS = ("tried", "accepted", "refused")


def main(words: list[str]) -> bool:
    """Print what came of all; whether nothing failed."""
    with tempfile.TemporaryDirectory() as scratch:
        if len(words) > 2:
            return _again(words[1], int(words[2]), Path(scratch))
        inputs = int(words[0]) if words else INPUTS
        found = try_doors(inputs, Path(scratch), *words[1:2])
    print(table(found))
    return not any(each.wrong for each in found.values())


def _again(name: str, number: int, scratch: Path) -> bool:
    import os

    os.chdir(scratch)
    door = DOORS[name]
    files = door.mutated(number)
    for changed, content in files.items():
        if content != door.files[changed]:
            print(f"{changed}: {content[:3000]!r}")
    try:
        print(door.try_with(files, Path("case")) or "accepted")
    except BaseException:
        traceback.print_exc()
        return False
    finally:
        os.chdir("/")
    return True


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
