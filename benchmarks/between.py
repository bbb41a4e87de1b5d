"""How far phases and messages are apart on random plans of up to 32 NPUs, by kind.

``python -m benchmarks.between`` prints the entries of ``SEEN`` in engine/rules/fidelity.py; plans
that do not fit their network are drawn anew.
"""

import math
import random
import sys
from collections import defaultdict

from dimsweep.engine import DimsweepError, run_one
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.rules import PlanKind, classify_plan
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program

PLANS = 1000
_SHAPES = {
    8: (
        "Ring(8)",
        "FullyConnected(8)",
        "Switch(8)",
        "Ring(4)_Switch(2)",
        "Ring(2)_FullyConnected(4)",
        "Switch(4)_Ring(2)",
        "Mesh2D(4,2)",
        "Torus2D(4,2)",
    ),
    16: (
        "Ring(16)",
        "Switch(16)",
        "Ring(4)_Switch(4)",
        "FullyConnected(4)_Ring(4)",
        "Switch(8)_Switch(2)",
        "Ring(4)_Ring(4)",
        "Mesh2D(4,4)",
        "Torus2D(4,4)",
    ),
    32: (
        "Ring(8)_Switch(4)",
        "Switch(8)_Ring(4)",
        "FullyConnected(8)_Switch(4)",
        "Switch(8)_Switch(4)",
        "Torus2D(4,4)_Switch(2)",
        "Ring(4)_Ring(4)_Switch(2)",
    ),
}
_SMALL = {"hidden": 512, "layers": 4, "heads": 8, "sequence": 512, "vocabulary": 8192}


def plan(number: int) -> list[str]:
    """The overrides of a random plan, which need not fit its network."""
    choose = random.Random(number).choice
    npus = choose([8, 16, 16, 32])
    shape = choose(_SHAPES[npus])
    bandwidth = [f"{choose([300, 100, 50, 25])} GB/s" for _ in shape.split("_")]
    overrides = [
        f"topology.shape={shape}",
        "topology.tiers=[]",
        f"topology.bandwidth=[{', '.join(bandwidth)}]",
        f"topology.latency={choose([0, 500, 700])} ns",
        f"collective={choose(['default', 'default', 'themis', 'whole'])}",
        f"collective.chunks={choose([1, 4, 8])}",
    ]
    family = choose(["dense", "dense", "dense", "experts", "experts", "dlrm"])
    if family == "dlrm":
        expert = choose([2, 4, 8, 16, 32])
        return [
            *overrides,
            "workload=dlrm",
            f"workload.parallel.expert={expert}",
            "workload.plan.micro_batch=128",
            f"workload.model.tables={max(8, expert)}",
            "workload.model.rows=1000",
        ]
    tensor, stages = choose([1, 2, 4, 8]), choose([1, 1, 2, 4])
    expert = choose([2, 4, 8]) if family == "experts" else 1
    in_turn, zero = choose([stages, 2 * stages, 4]), choose([0, 1, 2, 3] if stages == 1 else [0, 1])
    overrides += [f"workload.model.{key}={value}" for key, value in _SMALL.items()]
    overrides += [
        "workload=" + ("mixtral_8x22b" if family == "experts" else "gpt3_13b"),
        f"workload.parallel.tensor={tensor}",
        f"workload.parallel.pipeline={stages}",
        f"workload.plan.batch={max(1, npus // (tensor * stages)) * in_turn}",
        f"workload.plan.zero={zero}",
        f"workload.plan.sequence_parallel={choose(['true', 'false']) if tensor > 1 else 'false'}",
    ]
    if family == "experts":
        overrides += [f"workload.parallel.expert={expert}", "workload.model.ffn=1024"]
        overrides += ["workload.plan.interleave=1"]
    if choose([True, False, False, False]):
        overrides += ["workload.plan.offload=[optimizer]", f"memory={choose(['host', 'node'])}"]
    return overrides


def compared(number: int) -> tuple[PlanKind | None, float] | None:
    """The kind of a random plan, and by how much messages take longer than phases, relatively;
    None if it does not fit its network."""
    try:
        program = build_program(compose(plan(number)).config)
        by_message = build_program(compose([*plan(number), "fidelity=message"]).config)
    except DimsweepError:
        return None
    phases = int(run_one(program).measures.time[0])
    return classify_plan(program), int(run_messages(by_message).measures.time[0]) / phases - 1


def main(plans: int) -> None:
    """Print a line for each kind."""
    apart: defaultdict[PlanKind | None, list[float]] = defaultdict(list)
    number = 0
    while sum(map(len, apart.values())) < plans:
        found = compared(number)
        number += 1
        if found is not None:
            apart[found[0]].append(found[1])
    for kind, each in apart.items():
        equal = sum(ratio == 0 for ratio in each)
        least, most = math.floor(min(each) * 1000) / 1000, math.ceil(max(each) * 1000) / 1000
        print(f"{kind}: Seen({len(each)}, {equal}, {least}, {most}),")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PLANS)
