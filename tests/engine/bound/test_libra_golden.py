"""LIBRA's own inputs and certified optima, recorded in ``golden/libra``."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dimsweep.engine import Program, run_batch, run_one
from dimsweep.engine.bound import closed_form
from dimsweep.engine.formats import read_astra1_layers
from tests.support.golden import golden_file, libra
from tests.support.libra import DIMS, GB, WORKLOADS, layers_of, program_of
from tests.support.reference import phases_of

# Forward and input-gradient collectives are tensor-parallel, weight gradients data-parallel.
GROUPS = {"forward": "tensor", "input_grad": "tensor", "weight_grad": "data"}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return libra()


def cases_of(recorded: dict[str, Any], name: str, dims: int) -> list[dict[str, Any]]:
    found = [c for c in recorded["cases"] if c["workload"] == name and c["dims"] == dims]
    assert {case["total_bw_GBps"] for case in found} >= {100.0, 500.0}
    return found


@WORKLOADS
def test_layers_are_libras_to_the_byte_and_nanosecond(name: str) -> None:
    theirs = read_astra1_layers(golden_file(f"libra/inputs/workload/{name}.txt"), GROUPS)
    # LIBRA calls both halves of an MLP by other rules than we do.
    nameless = [[replace(layer, name="") for layer in some] for some in (layers_of(name), theirs)]
    assert nameless[0] == nameless[1]


@WORKLOADS
@DIMS
def test_traffic_of_every_collective(recorded: dict[str, Any], name: str, dims: int) -> None:
    program = program_of(name, dims)
    used = program.structure.forms["use_end"] > program.structure.forms["use_start"]
    rows = closed_form(program).demand[used[program.structure.flows["form"]]]
    theirs = [
        c["traffic_bytes_per_dim"] for c in recorded["inputs"][f"{name}/{dims}D"]["collectives"]
    ]
    assert len(rows) == len(theirs)
    assert np.array(sorted(rows.tolist())) == pytest.approx(np.array(sorted(theirs)), rel=1e-12)


@WORKLOADS
@DIMS
def test_compute(recorded: dict[str, Any], name: str, dims: int) -> None:
    compute = closed_form(program_of(name, dims)).compute
    assert compute * 1e9 == pytest.approx(recorded["inputs"][f"{name}/{dims}D"]["compute_ns"])


@WORKLOADS
@DIMS
def test_closed_form_at_every_optimum(recorded: dict[str, Any], name: str, dims: int) -> None:
    form = closed_form(program_of(name, dims))
    for case in cases_of(recorded, name, dims):
        best = case["best"]
        ours = form.time(np.array(best["bw"]) * GB) * 1e9
        assert ours == pytest.approx(best["time_ns"], rel=1e-9), case["objective"]


@WORKLOADS
@DIMS
def test_closed_form_at_every_equal_split(recorded: dict[str, Any], name: str, dims: int) -> None:
    form = closed_form(program_of(name, dims))
    for case in cases_of(recorded, name, dims):
        split = np.full(dims, case["total_bw_GBps"] / dims * GB)
        expected = case["best"]["equalbw_time_ns"]
        assert form.time(split) * 1e9 == pytest.approx(expected, rel=1e-9)


def fill_times(program: Program) -> int:
    """Picoseconds by which a run may exceed its closed form: see test_closed_form.bounds."""
    total = 0
    for chunks in phases_of(program).values():
        work = np.zeros(program.structure.shape.n_dims, dtype=np.int64)
        for phase in chunks[0]:
            work[phase.dim] += phase.duration
        total += int(work.sum() - work.max())
    return total


@WORKLOADS
@DIMS
@pytest.mark.parametrize("chunks", [64, 256])
def test_the_kernel_is_within_its_fill_time_of_the_closed_form(
    recorded: dict[str, Any], name: str, dims: int, chunks: int
) -> None:
    program = program_of(name, dims, chunks)
    form = closed_form(program)
    for case in cases_of(recorded, name, dims):
        if case["objective"] != "perf":
            continue
        # A dimension that nothing uses may have got no bandwidth at all.
        bandwidth = np.maximum(np.array(case["best"]["bw"]) * GB, 1.0)
        point = program.rebind(bandwidth=bandwidth)
        ours = int(run_one(point).measures.time[0])
        best = float(form.time(bandwidth)) * 1e12
        # Every step of every chunk is rounded, by half a picosecond at most.
        rounding = 0.5 * sum(
            len(chunks) * len(chunks[0]) * 31 for chunks in phases_of(point).values()
        )
        assert best - rounding <= ours <= best + fill_times(point) + rounding
        # Each collective misses at most the share of one chunk for each other dimension it uses.
        communication = best - form.compute * 1e12
        assert ours - best <= (dims - 1) / chunks * communication + rounding


def test_an_equal_split_for_gpt3() -> None:
    """To the picosecond, as a reminder: what changes this number must raise MODEL_VERSION."""
    split = np.full(4, 125 * GB)
    program = program_of("GPT_3", 4)
    assert closed_form(program).time(split) * 1e3 == pytest.approx(775.0452084, rel=1e-9)
    assert run_batch(program, split).time.tolist() == [775_082_957_136]


def test_the_certified_optimum(recorded: dict[str, Any]) -> None:
    case = next(
        c
        for c in cases_of(recorded, "GPT_3", 4)
        if c["objective"] == "perf" and c["total_bw_GBps"] == 500.0
    )
    bandwidth = np.array(case["best"]["bw"]) * GB
    milliseconds = closed_form(program_of("GPT_3", 4)).time(bandwidth) * 1e3
    assert round(float(milliseconds), 6) == 722.411781
    # In 64 chunks the kernel takes 0.09 % longer.
    point = program_of("GPT_3", 4).rebind(bandwidth=bandwidth)
    assert run_one(point).measures.time[0] == 723_088_611_452
    # LIBRA's shipped default: 1000 GB/s under three more constraints.
    shipped = recorded["constrained"][0]
    milliseconds = closed_form(program_of("GPT_3", 4)).time(np.array(shipped["bw"]) * GB) * 1e3
    assert round(float(milliseconds), 6) == 708.438743
