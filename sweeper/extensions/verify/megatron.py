"""Batch times of Megatron-LM on A100 clusters, as Korthikanti et al. (MLSys 2023) measured them.

Tables 3 and 5 of "Reducing activation recomputation in large transformer models": sequences of
2,048 tokens, a vocabulary of 51,200, tensor parallelism within each node of 8.
"""

from dataclasses import dataclass
from statistics import fmean

from dimsweep.engine.workload import Footprint
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Value,
    create_command,
    within_amount,
    within_share,
)
from dimsweep.sweeper.simulation.simulate import simulate

_WORST_AIM, _MEAN_AIM = 0.10, 5.0  # a share; %
_SOURCE = "Korthikanti et al., MLSys 2023, table 5"
_FORMULA = "Korthikanti et al., MLSys 2023, table 2 and section 4.3"
_FITTED = "measured kernels, and one set of three constants for all (conf/npu/a100.yaml)"


@dataclass(frozen=True)
class Case:
    """A model on a number of nodes, and its measured seconds with two kinds of recomputation."""

    name: str
    workload: str
    nodes: int
    full: float  # seconds, everything recomputed
    selective: float  # seconds, with sequence parallelism and the attention's core recomputed
    overrides: tuple[str, ...] = ()

    def list_overrides(self, recompute: str) -> list[str]:
        """Return the configuration overrides for the case with one kind of recomputation."""
        return [
            f"workload={self.workload}",
            "topology=dgx_a100",
            f"topology.shape=Switch(8)_Switch({self.nodes})",
            "npu=a100",
            "collective=streamed",
            f"workload.plan.recompute={recompute}",
            f"workload.plan.sequence_parallel={'true' if recompute == 'selective' else 'false'}",
            *self.overrides,
        ]


CASES = (
    Case("22B", "megatron_22b", 1, 1.42, 1.10),
    Case(
        "175B",
        "gpt3_175b",
        8,
        18.13,
        13.75,
        ("workload.plan.batch=64", "workload.plan.gradients=fp32"),
    ),
    Case("530B", "megatron_530b", 35, 49.05, 37.83),
    Case("1T", "megatron_1t", 64, 94.42, 71.49),
)


def find() -> Findings:
    """Compare eight published batch times of Megatron-LM on 8 to 512 A100.

    They are from Korthikanti et al., "Reducing activation recomputation in large transformer
    models" (MLSys 2023). The activations of the fullest GPU are compared with the paper's formula,
    and its state is its weights, gradients and optimizer. It takes minutes.
    """
    times, memories = list[Value](), list[Value]()
    for case in CASES:
        for recompute, published in (("full", case.full), ("selective", case.selective)):
            seconds, memory, formula = simulate_case(case, recompute)
            name = f"{case.name}, {recompute} recomputation"
            allowed = within_share(_WORST_AIM)
            times.append(Value(name, published, seconds, allowed, _SOURCE, "s", _FITTED))
            state = (memory.weights + memory.gradients + memory.optimizer) / 1e9
            name += f": activations beside {state:.1f} GB of state"
            sizes = formula / 1e9, memory.activations / 1e9
            memories.append(Value(name, *sizes, None, _FORMULA, "GB", basis="derived"))
    mean = fmean(abs(time.difference) for time in times)
    whole = Value("mean error of the times", 0, 100 * mean, within_amount(_MEAN_AIM), _SOURCE, "%")
    return Findings([*times, whole, *memories])


def simulate_case(case: Case, recompute: str) -> tuple[float, Footprint, float]:
    """Simulate a case with one kind of recomputation.

    Returns its seconds, the memory of the fullest GPU, and the first stage's bytes of activations
    by the paper's formula.
    """
    config = compose(case.list_overrides(recompute)).config
    result = simulate(config)
    memory = result.program.workload.footprint
    assert memory is not None
    return result.time, memory, _compute_formula(config, recompute)


def _compute_formula(config: Config, recompute: str) -> float:
    """Return the bytes of activations by table 2 and section 4.3 of the paper."""
    workload = config.workload
    assert isinstance(workload, Model)
    model, plan, parallel = workload.model, workload.plan, workload.parallel
    tokens = model.sequence * (plan.micro_batch or 1) * model.hidden
    each = 2 * tokens if recompute == "full" else 34 * tokens / parallel["tensor"]
    stages, chunks = parallel["pipeline"], plan.interleave
    ahead = (stages - 1) / (stages * chunks) if chunks > 1 else 0.0
    cut = parallel["tensor"] if recompute == "selective" else 1
    return float(each * model.layers * (1 + ahead) + tokens * stages / cut)


command = create_command("megatron", find)
