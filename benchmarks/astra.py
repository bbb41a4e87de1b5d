"""dimsweep astra against the CPU time that ASTRA-sim itself was recorded to take."""

from __future__ import annotations

import time
from pathlib import Path

from engine import simulate_astra
from sweeper.astra_check import Case, find_cases, read_case

RECORDED = Path(__file__).resolve().parents[2] / "shared" / "golden" / "astra"
CASES = (
    "B/Conv-3D_all_reduce_1GB_c64_roundRobin_LIFO",
    "C/ScaleConv3D-64_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-128_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-2048_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-4096_all_reduce_1GB_c64_baseline_LIFO",
    "C/Async8-1024",
    "D/gpt3_175b_64_tp8_dp4_pp2__R4F4S4_c4",
)


def main() -> None:
    """Print each case's recorded seconds, ours, and the ratios with and without reading files."""
    if not RECORDED.is_dir():
        print(f"there is no {RECORDED}, which holds the recorded runs")
        return
    for name in CASES:
        (case,) = find_cases([RECORDED / name])
        _report(case)


def _report(case: Case) -> None:
    start = time.process_time()
    inputs, traces = read_case(case)
    reading = time.process_time() - start
    simulating = []
    for _ in range(3):
        start = time.process_time()
        simulate_astra(inputs, traces)
        simulating.append(time.process_time() - start)
    ours = min(simulating)
    recorded = float(case.result.get("cpu_s_min") or case.result["wall_s"])
    print(
        f"{case.folder.name}: recorded {recorded:.2f} s, ours {ours * 1e3:.1f} ms "
        f"({recorded / ours:,.0f}x; {recorded / (ours + reading):,.0f}x with reading)"
    )
