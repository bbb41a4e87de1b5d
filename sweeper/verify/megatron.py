"""Batch times of Megatron-LM on A100 clusters, as Korthikanti et al. (MLSys 2023) measured them.

Tables 3 and 5 of "Reducing activation recomputation in large transformer models": sequences of
2,048 tokens, a vocabulary of 51,200, tensor parallelism within each node of 8.
"""

from dataclasses import dataclass

import click
from rich.console import Console

from dimsweep.engine.workload import Footprint
from dimsweep.sweeper.build.simulate import simulate
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.terminal import say, table, waiting
from dimsweep.sweeper.verify.points import Value, json_option, print_json, relative

_COLUMNS = ("model", "recompute", "published", "ours", "error", "state", "activations", "formula")
_MEAN_AIM, _WORST_AIM = 0.05, 0.10
_SOURCE = "Korthikanti et al., MLSys 2023, table 5"


@dataclass(frozen=True)
class Case:
    """A model on so many nodes, and its measured seconds: everything computed again, and sequence
    parallelism with the attention's core computed again."""

    name: str
    workload: str
    nodes: int
    full: float
    selective: float
    overrides: tuple[str, ...] = ()

    def settings(self, recompute: str) -> list[str]:
        """The overrides that make the case."""
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


@click.command("megatron")
@json_option
def command(as_json: bool) -> int:
    """Compare eight published batch times of Megatron-LM on 8 to 512 A100.

    They are those of Korthikanti et al., "Reducing activation recomputation in large transformer
    models" (MLSys 2023). The table shows each GPU's memory, too; it takes minutes.
    """
    console, points, rows = Console(stderr=as_json), list[Value](), []
    with waiting("simulating batches", console, 2 * len(CASES)) as done:
        for case in CASES:
            for recompute, published in (("full", case.full), ("selective", case.selective)):
                seconds, memory, formula = simulate_case(case, recompute)
                name = f"{case.name}, {recompute} recomputation"
                point = Value(name, published, seconds, relative(_WORST_AIM), _SOURCE, "s")
                points.append(point)
                state = memory.weights + memory.gradients + memory.optimizer
                times = f"{published:.2f} s", f"{seconds:.2f} s", f"{error_of(point):+.1%}"
                sizes = [f"{n / 1e9:.1f} GB" for n in (state, memory.activations, formula)]
                rows.append((case.name, recompute, *times, *sizes))
                done()
    errors = [abs(error_of(point)) for point in points]
    mean, worst = sum(errors) / len(errors), max(errors)
    if as_json:
        print_json(points)
        return int(mean > _MEAN_AIM or worst > _WORST_AIM)
    console.print(table(_COLUMNS, rows, left=2))
    say("state: weights, gradients and optimizer of the fullest GPU; formula: the paper's", console)
    say(
        f"mean error {mean:.2%} (aim {_MEAN_AIM:.0%}), worst {worst:.2%} (aim {_WORST_AIM:.0%}); "
        "measured kernels, and one set of three constants for all (conf/npu/a100.yaml)",
        console,
    )
    return int(mean > _MEAN_AIM or worst > _WORST_AIM)


def error_of(point: Value) -> float:
    """Ours over the published value, less 1."""
    return point.ours / point.published - 1


def simulate_case(case: Case, recompute: str) -> tuple[float, Footprint, float]:
    """Seconds, memory of the fullest GPU, and the activations of the first stage's layers in the
    paper's formula."""
    config = compose(case.settings(recompute)).config
    result = simulate(config)
    memory = result.program.workload.footprint
    assert memory is not None
    return result.time, memory, _formula(config, recompute)


def _formula(config: Config, recompute: str) -> float:
    """Table 2 and section 4.3 of the paper: bytes a layer, times the layers in flight, and the mask
    of the embedding's dropout for each micro-batch in flight."""
    workload = config.workload
    assert isinstance(workload, Model)
    model, plan, parallel = workload.model, workload.plan, workload.parallel
    tokens = model.sequence * plan.micro_batch * model.hidden
    each = 2 * tokens if recompute == "full" else 34 * tokens / parallel["tensor"]
    stages, chunks = parallel["pipeline"], plan.interleave
    ahead = (stages - 1) / (stages * chunks) if chunks > 1 else 0.0
    cut = parallel["tensor"] if recompute == "selective" else 1
    return float(each * model.layers * (1 + ahead) + tokens * stages / cut)
