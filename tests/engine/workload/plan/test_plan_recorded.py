"""Totals of a plan's graph against those of a symbolic generator's recorded traces.

Where the two models are the same (the layers of a transformer under tensor, sequence, data and
pipeline parallelism) they agree within 1 %.  Where they are not, the difference is written out:
the generator counts multiply-adds and elements, not operations and bytes; sums up gradients after
every micro-batch; leaves the attention's scores out; and takes the embedding and the logits for
dense products of h x V that are divided among the tensor-parallel ranks by tokens, so that each
rank holds all of h x V and sums it up among them too.
"""

import re

import pytest

from dimsweep.engine import Collective, Compute, Workload
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training
from dimsweep.sweeper.extensions.astra_sim.verify import Case
from tests.support.golden import astra_cases

CORE = ("scores", "softmax", "values")


def cases() -> list[Case]:
    """One recorded case of each generated workload."""
    first: dict[str, Case] = {}
    for case in astra_cases("D"):
        first.setdefault(case.result["workload_tar"], case)
    return list(first.values())


def options(command: str) -> dict[str, int]:
    return {k: int(v) for k, v in re.findall(r"--(\w+) (\d+)", command)}


def workload_of(given: dict[str, int]) -> tuple[Workload, int]:
    """The same layers under the same plan, and the number of micro-batches."""
    n_micro = given["batch"] // given["micro_batch"]
    model = Transformer(
        given["dmodel"],
        given["num_stacks"],
        given["head"],
        given["seq"],
        ffn=given["dff"],
        bias=False,
        dropout=False,
    )
    plan = ParallelPlan(
        batch=given["batch"],
        micro_batch=given["micro_batch"] // given["dp"],
        sequence_parallel=True,
        zero=3 if given["weight_sharded"] else 0,
        value=1.0,
        gradient_value=1.0,
    )
    axes = {"data": given["dp"], "tensor": given["tp"], "pipeline": given["pp"]}
    n_ranks = given["dp"] * given["tp"] * given["pp"]
    return training(model, plan, DeviceMesh.place(axes, (n_ranks,))), n_micro


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.folder.name)
def test_bytes_and_operations_are_the_generators(case: Case) -> None:
    recorded = case.result
    given = options(recorded["stg_command"])
    workload, n_micro = workload_of(given)
    table = given["dvocal"] * given["dmodel"]
    tokens = given["micro_batch"] // given["dp"] * given["seq"] // given["tp"]
    products = 3 * n_micro * tokens * table  # of one table, forward and backward
    tables = 1 if given["pp"] > 1 else 2  # of the first stage
    sums = (given["dp"] > 1) + (given["tp"] > 1)
    for graph, stats in (
        (workload.graphs[0], recorded["trace_stats"]["stats_rank0"]),
        (workload.graphs[-1], recorded["trace_stats"]["stats_last"]),
    ):
        moved: dict[str, float] = {"tensor": 0.0, "replicas": 0.0}
        multiply_adds = 0.0
        for operator in graph:
            if isinstance(operator.work, Collective):
                moved[operator.work.group] += operator.work.n_bytes
            elif isinstance(operator.work, Compute):
                kernels = operator.work.kernels
                multiply_adds += sum(k.flops / 2 for k in kernels if k.name.split()[0] not in CORE)
        every_time = 1 if given["weight_sharded"] else n_micro  # gradients
        elements = moved["tensor"] + moved["replicas"] * every_time + tables * sums * table
        assert elements == pytest.approx(stats["coll_bytes"], rel=0.01)
        assert multiply_adds + tables * products == pytest.approx(stats["ops"], rel=0.01)
