"""The packet kernel: packets a second, beside ns-3's recorded CPU time for the same runs."""

from collections import defaultdict
from pathlib import Path

from sweeper.verify.packets import Case, read_cases

_GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "roce"
_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "golden" / "roce"
_LEAST = 0.1  # CPU seconds that ns-3 took: shorter ones are rounded to 10 ms
_REPEATS = 3


def main() -> None:
    """Print each transport's speed on the longer recorded runs (of ns-3 -O2, a loaded machine)."""
    folder = _BESIDE if _BESIDE.is_dir() else _GOLDEN
    least = _LEAST if _BESIDE.is_dir() else 0.0
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for case in read_cases(folder):
        out = case.line["out"]
        if case.left_out or case.line["build"] != "restored" or out["run_cpu_s"] < least:
            continue
        for key in (case.line["variant"], "all"):
            total = totals[key]
            total[0] += out["host_data_packets"]
            total[1] += out["run_cpu_s"]
            total[2] += _cpu(case) if key != "all" else 0.0
    totals["all"][2] = sum(total[2] for total in totals.values())
    for variant, (packets, recorded, ours) in sorted(totals.items()):
        print(
            f"{variant:13} {packets:10,.0f} packets: {packets / ours:10,.0f} a second, "
            f"{recorded / ours:5.1f} times ns-3"
        )


def _cpu(case: Case) -> float:
    return min(case.simulate().cpu for _ in range(_REPEATS))
