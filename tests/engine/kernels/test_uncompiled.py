"""Kernels run as plain Python, for a debugger, and compute the same."""

import os
import subprocess
import sys

import pytest

from dimsweep.engine import run_batch
from dimsweep.engine.kernels.network import run_messages
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program

GRADIENTS = "{duration: 0 ns, collective: all_reduce, size: 20 kB, group: data}"
WORDS = (
    "workload=all_reduce",
    f"workload.layers=[{{name: all, weight_grad: {GRADIENTS}}}]",
    "topology.shape=Ring(4)_Switch(2)",
    "topology.bandwidth=[50 GB/s,100 GB/s]",
    "topology.tiers=[]",
    "topology.latency=700 ns",
)


def times() -> list[int]:
    """Picoseconds of a small collective by phases, messages, flows and packets."""
    found = []
    for fidelity in ("phase", "message", "flow", "packet"):
        config = compose([*WORDS, f"fidelity={fidelity}"]).config
        program = build_program(config)
        if fidelity == "phase":
            measures = run_batch(program, program.bandwidth[None])
        else:
            measures = run_messages(program, config.fidelity).measures
        found.append(int(measures.time[0]))
    return found


@pytest.mark.long
def test_all_kernels_compute_the_same_without_numba() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import times; print(times())"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == str(times()).split()
