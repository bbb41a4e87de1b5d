"""dimsweep trace learn on traces of other tools, whose jobs' keys were written beside them."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine import Cluster, Npu, Topology, Workload, simulate
from dimsweep.engine.extensions.synthesis import Job, learn, synthesise
from dimsweep.engine.formats.chakra import read_chakra_workload
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.extensions.astra_sim.verify import unpack
from dimsweep.sweeper.extensions.synthesis.commands import read_workload
from tests.support.foreign import write_kineto, write_symbolic
from tests.support.golden import golden_file

FAMILY = {
    "hidden": (512, 1024, 2048),
    "sequence": (256, 512, 1024),
    "dp": (2, 3),
    "tp": (2,),
}
WRITERS = {"symbolic": write_symbolic, "kineto": write_kineto}


def draw(rng: random.Random, tool: str, **choices: tuple[int, ...]) -> dict[str, int]:
    keys = {name: rng.choice(values) for name, values in (FAMILY | choices).items()}
    if tool == "symbolic":
        keys |= {"micro_batches": rng.choice((2, 3, 4)), "batch": 24, "pp": 2}
        return keys | {"layers": 2 * rng.choice(choices.get("layers", (2, 3, 5)))}
    keys |= {"batch": rng.choice((2, 4, 8))}
    return keys | {"layers": rng.choice(choices.get("layers", (2, 3, 5)))}


def time_of(workload: Workload, n: int) -> float:
    topology = Topology.build(f"Switch({n})", bandwidth=[50e9], latency=[1_000_000])
    return simulate(workload, Cluster(topology, Npu(flops=100e12, memory_bandwidth=1e12))).time


@pytest.mark.long
@pytest.mark.parametrize("tool", WRITERS)
def test_jobs_of_other_tools_are_learnt(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs").mkdir()
    rng = random.Random(5)
    known = {tuple(sorted(draw(rng, tool).items())) for _ in range(12)}
    for number, keys in enumerate(sorted(known)):
        WRITERS[tool](Path(f"jobs/j{number}"), dict(keys))
    assert main(["trace", "learn", "jobs"]) == 0, capsys.readouterr().err
    for limit, choices in ((0.05, {}), (0.10, {"layers": (7,), "dp": (4,)})):
        errors = []
        for number in range(2):
            keys = draw(rng, tool, **choices)
            real, made = f"real{limit}{number}", f"made{limit}{number}"
            WRITERS[tool](Path(real), keys)
            asked = [f"{name}={value}" for name, value in keys.items()]
            assert main(["trace", "synthesise", "model.json", *asked, "-o", made]) == 0
            times = [time_of(*_whole(name)) for name in (made, real)]
            errors.append(abs(times[0] / times[1] - 1))
        assert main(["trace", "lint", made]) == 0
        assert np.mean(errors) < limit


def _whole(prefix: str) -> tuple[Workload, int]:
    workload, (n,) = read_workload(prefix)
    return workload, n


def test_recorded_traces_of_astra_sim_are_written_again(tmp_path: Path) -> None:
    """What each node waits for, sizes and groups are as symbolic_tensor_graph wrote them."""
    name = "gpt_small_8_tp2_dp2_pp2"
    unpack(golden_file(f"astra/D/_workloads/{name}.tar.xz"), tmp_path)
    groups = golden_file(f"astra/D/{name}__F2S4_c4/comm_group.json")
    real = read_chakra_workload(tmp_path / "w", groups, (8,), name)
    keys = {"layers": 4, "tp": 2, "dp": 2, "pp": 2}
    made = synthesise(learn([Job.from_workload(real, (8,), keys, name)]), keys).workload
    for mine, theirs in zip(made.graphs, real.graphs, strict=True):
        assert [each.after for each in mine] == [each.after for each in theirs]
    assert time_of(made, 8) == pytest.approx(time_of(real, 8), rel=1e-9)


def test_a_rank_that_does_something_else_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"layers": 2, "hidden": 512, "sequence": 256, "batch": 2, "dp": 2, "tp": 2}
    write_kineto(tmp_path / "a", keys)
    write_kineto(tmp_path / "b", keys | {"layers": 3})
    (tmp_path / "b.2.et").rename(tmp_path / "a.2.et")
    assert main(["trace", "learn", str(tmp_path / "a")]) == 1
    said = capsys.readouterr().err
    assert (
        "a, rank 2: from operator 22 ('aten::layer_norm') on" in said
        and "it differs from rank 0" in said
    )
    (tmp_path / "a.2.et").unlink()
    assert main(["trace", "learn", str(tmp_path / "a")]) == 1
    assert "the trace of rank 2 is missing" in capsys.readouterr().err


def test_keys_of_all_jobs_are_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {"layers": 2, "hidden": 512, "sequence": 256, "batch": 2, "dp": 2, "tp": 1}
    write_kineto(Path("a"), keys)
    Path("a.keys.json").unlink()
    Path("all.json").write_text(json.dumps({"a": keys}))
    assert main(["trace", "learn", "a", "--keys", "all.json"]) == 0
    assert "1 part of 1 job" in capsys.readouterr().out
    asked = ["trace", "synthesise", "model.json", "-o", "b"]
    assert main(asked) == 0
    said = capsys.readouterr().err
    assert "the part 'only stage; no degree is 1' was learnt from 1 job" in said
    Path("all.json").write_text(json.dumps({"b": keys}))
    assert main(["trace", "learn", "a", "--keys", "all.json"]) == 1
    assert "no keys of the job 'a'\n  jobs that it has: b" in capsys.readouterr().err
