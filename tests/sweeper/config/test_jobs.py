"""Several jobs in a configuration: each a workload of its own, on a part of one network."""

import json
from typing import Any

import numpy as np
import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.kernels.network import MessageRunner
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.jobs import Jobs
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import Workload
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import AloneRunners, JobTime, simulate
from tests.support.refused import refused

LEVELS = (
    "network.levels=[{switch: leaf, share: 8, bandwidth: 50 GB/s, latency: 500 ns},"
    " {switch: spine, below: leaf, bandwidth: 50 GB/s, latency: 500 ns}]"
)
SCATTERED = "network.placement=['0-31:2', '1-31:2']"
REDUCE = {"workload": "all_reduce", "size": 4}
GPT = {
    "workload": {
        "preset": "gpt3_13b",
        "model": {"layers": 2, "hidden": 512, "heads": 8},
        "parallel": {"tensor": 4, "pipeline": 2},
        "plan": {"batch": 4},
    },
    "size": 4,
}


def workload(**jobs: Any) -> dict[str, Any]:
    return {"kind": "jobs", "name": "two jobs", "jobs": jobs}


def config(*told: str, fidelity: str = "message", **jobs: Any) -> Config:
    words = [
        *("topology.shape=Switch(4)_Switch(8)", "topology.tiers=[]", "topology.latency=500 ns"),
        *("npu=h100", "collective.chunks=2", f"fidelity={fidelity}", *told),
    ]
    plain = compose(words).config.plain()
    return Config.from_plain(plain | {"workload": workload(**jobs or {"a": REDUCE, "b": REDUCE})})


def times(own: Config) -> dict[str, JobTime]:
    return AloneRunners.from_config(own).times(simulate(own).run.measures.end[0])


def test_a_job_is_its_preset_with_its_own_keys() -> None:
    own = config(a=REDUCE, b=GPT)
    assert isinstance(own.workload, Jobs)
    gpt, preset = own.workload.jobs["b"].workload, compose(["workload=gpt3_13b"]).config.workload
    changed = {"layers": 2, "hidden": 512, "heads": 8}
    plain: Any = preset.plain()
    plain["model"] |= changed
    plain["plan"]["batch"] = 4
    plain["parallel"] = {"tensor": 4, "data": "rest", "pipeline": 2}
    assert gpt.plain() == plain
    assert Config.from_plain(json.loads(json.dumps(own.plain()))) == own


def test_packed_jobs_do_not_feel_each_other_and_scattered_ones_do() -> None:
    packed, scattered = times(config(LEVELS)), times(config(LEVELS, SCATTERED))
    assert [job.slowdown for job in packed.values()] == [1, 1]
    assert [job.ranks for job in packed.values()] == [16, 16]
    assert min(job.slowdown for job in scattered.values()) > 1.2
    assert all(job.time > packed[name].time for name, job in scattered.items())


@pytest.mark.parametrize("fidelity", ["message", "flow"])
def test_alone_is_as_on_a_network_of_its_own(fidelity: str) -> None:
    """A packed job among others takes as long as the same workload on its own 16 NPUs."""
    own = config(LEVELS, fidelity=fidelity)
    alone = config(
        *(LEVELS, "topology.shape=Switch(4)_Switch(4)"), fidelity=fidelity, a=REDUCE
    ).with_values({"workload": own.text["workload"]["jobs"]["a"]["workload"]})
    assert times(own)["a"].alone == simulate(alone).time


def test_alone_is_at_the_bandwidth_that_is_asked_for() -> None:
    """As a study's search asks for several, each with all jobs and alone."""
    own = config()
    runner = MessageRunner(build_program(own))
    for bandwidth in (np.array([100e9, 25e9]), np.array([200e9, 50e9])):
        ends = runner.run(bandwidth).measures.end[0]
        assert {
            job.slowdown for job in AloneRunners.from_config(own).times(ends, bandwidth).values()
        } == {1}


def test_each_job_has_a_plan_of_its_own() -> None:
    found = times(config(LEVELS, a=REDUCE, b=GPT))
    assert found["a"].time != found["b"].time
    assert {job.slowdown for job in found.values()} == {1}


def test_jobs_run_on_dimensions_and_on_npus_of_several_kinds() -> None:
    """The second job has the slower NPUs; the first does not mind."""
    first, last = (
        times(config(f"other_npus=[{{npu: a100, at: {at}}}]", a=GPT, b=GPT))
        for at in ("0-15", "16-31")
    )
    assert first["a"] == last["b"]
    assert first["a"].time > last["a"].time


def test_each_job_must_fit_its_own_npus() -> None:
    """The model needs 0.5 GB and more; a collective alone needs none that is counted."""
    small = "other_npus=[{{npu: {{memory: 100 MB, memory_bandwidth: 1 TB/s}}, at: {at}}}]"
    build_program(config(small.format(at="16-31"), a=GPT, b=REDUCE))
    with pytest.raises(DimsweepError, match="must hold") as raised:
        build_program(config(small.format(at="0-15"), a=GPT, b=REDUCE))
    assert raised.value.where == "other_npus"
    build_program(config(small.format(at="0-15"), a=REDUCE, b=GPT))


@pytest.mark.parametrize(
    ("job", "where", "code", "data"),
    [
        ({**REDUCE, "size": 5}, "", "mismatch", "9"),
        ({**REDUCE, "size": 0}, ".b.size", "out-of-range", "1 or more"),
        ({"workload": "all_reduc", "size": 4}, ".b.workload", "unknown-name", "all_reduc"),
        ({"workload": "chakra", "size": 4}, ".b.workload", "unsupported", ""),
        ({"workload": workload(a=REDUCE), "size": 4}, ".b.workload", "unsupported", ""),
        (
            {"workload": {"preset": "gpt3_13b", "plan": {"precision": "fp16"}}, "size": 4},
            *(".b.workload", "mismatch", "fp16"),
        ),
        (
            {"workload": {"preset": "gpt3_13b", "parallel": {"tensor": 3}}, "size": 4},
            *(".b.workload.parallel.tensor", "infeasible", "3"),
        ),
        ({"workload": {"kind": "layers"}, "size": 4}, ".b.workload.name", "missing", ""),
    ],
)
def test_wrong_jobs_are_refused(job: dict[str, Any], where: str, code: Code, data: str) -> None:
    with refused(f"workload.jobs{where}", code, data):
        build_program(config(a=REDUCE, b=job))


def test_phases_share_no_links() -> None:
    with refused("fidelity", "unsupported", "fidelity=phase"):
        simulate(config(fidelity="phase"))


def test_one_workload_is_no_job() -> None:
    own = compose(["fidelity=message", "workload=all_reduce", "topology.shape=Switch(4)"]).config
    assert isinstance(own.workload, Workload)
    assert AloneRunners.from_config(own).runners == {}
