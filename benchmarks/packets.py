"""The packet kernel: packets a second, beside ns-3's recorded CPU time for the same runs."""

from collections import defaultdict
from pathlib import Path

from sweeper.verify.packets import Compared, read_cases

_GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "roce"
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "golden" / "roce"
_LEAST = 0.1  # CPU seconds that ns-3 took: shorter ones are rounded to 10 ms
_REPEATS = 3


def main() -> None:
    """Print each transport's speed on the longer recorded runs (of ns-3 -O2, a loaded machine)."""
    folder, least = (_BESIDE, _LEAST) if _BESIDE.is_dir() else (_GOLDEN, 0.0)
    totals: dict[str, Compared] = defaultdict(Compared)
    for case in read_cases(folder):
        long = case.line["out"]["run_cpu_s"] >= least
        if long and case.line["build"] == "restored" and not case.left_out:
            quickest = min((case.simulate() for _ in range(_REPEATS)), key=lambda run: run.cpu)
            for key in (case.line["variant"], "all"):
                totals[key].add(case, quickest)
    for variant, total in sorted(totals.items()):
        print(
            f"{variant:13} {total.packets:10,.0f} packets: {total.packets / total.cpu:10,.0f} a "
            f"second, {total.recorded_cpu / total.cpu:5.1f} times ns-3"
        )
