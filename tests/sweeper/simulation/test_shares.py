"""Shares of a time or of a rate are 1 at most, for every NPU and cluster in every precision."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.account.result import Result
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.workload.workload import PRECISIONS
from dimsweep.sweeper.simulation.simulate import simulate

MODEL = ["workload=llama3_8b", "workload.model.layers=4", "workload.plan.micro_batches=2"]
ON = [
    f"{group}={file.stem}"
    for group in ("npu", "cluster")
    for file in sorted(Path("conf", group).glob("*.yaml"))
    if group == "npu" or not file.stem.startswith(("none", "tpu"))  # tori of hundreds of NPUs
]
ROUNDING = 1e-6  # of durations to a picosecond


def result(*words: str) -> Result | None:
    """Simulate a small model, unless the NPU is not known to compute it in the precision."""
    nodes = ["nodes=1"] if words[0].startswith("cluster=") else []
    try:
        return simulate(compose([*MODEL, *words, *nodes]).config)
    except DimsweepError:
        return None


def shares(run: Result) -> Iterator[tuple[str, float]]:
    yield "mfu", run.merits.get("mfu", 0.0)
    yield from (("utilisation", share) for share in run.utilisation.values())
    yield "compute", (run.compute + run.exposed) / run.time
    yield "exposed", sum(run.exposed_by_dim.values()) / run.time
    yield from (("busy", busy / run.time_ps) for busy in run.breakdown.busy[0].tolist())
    yield "critical path", sum((run.critical_path or {}).values()) / run.time


@pytest.mark.long
@pytest.mark.parametrize("on", ON)
def test_no_share_exceeds_one(on: str) -> None:
    known = 0
    for precision in PRECISIONS:
        for task in ("training", "prefill", "decode"):
            run = result(on, f"workload.plan.precision={precision}", f"workload.plan.task={task}")
            for name, share in shares(run) if run else ():
                assert 0 <= share <= 1 + ROUNDING, (name, precision, task)
            known += run is not None
    assert known or on in ("npu=a100_234",)  # which states no bandwidth of memory


def test_fp8_is_compared_with_the_peak_in_fp8() -> None:
    """2.5 PFLOP/s in bf16 and 5 PFLOP/s in fp8: against the first the MFU was 123.6 %."""
    words = ["workload=llama3_8b", "cluster=mi355x", "nodes=1", "workload.plan.precision=fp8"]
    run = simulate(compose(words).config)
    amount = run.program.workload.amount
    assert amount is not None
    narrow = amount.narrow["fp8"]
    at_peak = ((amount.flops - narrow) / 2.5e15 + narrow / 5e15) / 8
    assert 0.8 < narrow / amount.flops < 1
    assert run.merits["mfu"] == pytest.approx(at_peak / run.time)
