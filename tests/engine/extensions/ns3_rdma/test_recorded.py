"""Recorded runs of ns-3's RDMA model, to the nanosecond."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.ns3_rdma.scenario import MarkingDraws, mixed, murmur3
from dimsweep.sweeper.extensions.ns3_rdma.verify import Case, Compared, read_cases
from tests.support.refused import refused

GOLDEN = Path(__file__).parents[3] / "golden" / "roce"
CASES = list(read_cases(GOLDEN))


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.left_out], ids=lambda case: case.name
)
def test_every_completion_time_pause_and_queue_is_as_recorded(case: Case) -> None:
    compared = Compared()
    compared.add(case, case.simulate())
    assert compared.equal == 1, compared.faults


def test_a_run_that_differs_is_told() -> None:
    case = CASES[0]
    compared = Compared()
    out = case.line["out"]
    wrong = Case(
        case.line | {"out": out | {"fct_ns": [n * 2 for n in out["fct_ns"]]}}, case.scenario
    )
    compared.add(wrong, case.simulate())
    assert compared.equal == 0
    assert "flow 0 takes" in compared.faults[0]


def test_headroom_that_exceeds_the_buffer_is_refused() -> None:
    case = CASES[0]
    scenario = replace(case.scenario, config={**case.scenario.config, "BUFFER_SIZE": 0})
    with pytest.raises(DimsweepError, match="headroom and the reserves of its ports take more"):
        Case(case.line, scenario).simulate()


def test_a_folder_without_recorded_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        DimsweepError, match=r"topologies\.json: there is no such file beside the recorded runs"
    ):
        list(read_cases(tmp_path))


def test_another_rate_control_is_refused() -> None:
    case = CASES[0]
    with refused("", "unsupported", "CC_MODE 10"):
        Case({**case.line, "cc_mode": 10}, case.scenario).simulate()


def test_murmur3_of_published_vectors() -> None:
    """Of SMHasher's well-known answers, those whose key is whole words."""
    assert murmur3(mixed(), 0) == 0
    assert murmur3(mixed(), 1) == 0x514E28B7
    assert murmur3(mixed(0xFFFFFFFF), 0) == 0x76293B50
    assert murmur3(mixed(0x87654321), 0) == 0xF55B516B
    assert murmur3(mixed(0x87654321), 0x5082EDEE) == 0x2362F9DE


def test_draws_go_on_where_they_were() -> None:
    draws, again = MarkingDraws(4, 1), MarkingDraws(4, 1)
    many = draws(200)
    assert np.array_equal(np.concatenate([again(100), again(100)]), many)
    assert 0.4 < many.mean() < 0.6
    assert not np.array_equal(many, MarkingDraws(4, 2)(200))
