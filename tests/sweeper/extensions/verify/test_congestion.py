"""The studies of congestion control and of TCP: what their points look at, and small cases."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from dimsweep.engine import Result, run_one
from dimsweep.engine.kernels.network import run_messages
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.files import find_published
from dimsweep.sweeper.extensions.verify.points import read_lines
from dimsweep.sweeper.extensions.verify.published import Answers
from dimsweep.sweeper.simulation.program import build_program

ALONE, SPRAYED = "transport: static, window: False", "transport: static, window: False, spray: True"
RATES = {name: f"transport: {name.lower()}" for name in ("DCQCN", "DCTCP", "TIMELY")}
HPCC = "transport: hpcc"
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def failed(study: str, tables: Rows) -> list[str]:
    """The claims that rows which are made up do not keep."""
    files = find_published()[study]
    made = {name: pa.Table.from_pylist(list(rows)) for name, rows in tables.items()}
    with Answers.connect(made, files.views) as answers:
        for line in read_lines(files.points):
            assert answers.evaluate(line.ours, line.place)
        lines = read_lines(files.points)
        return [line.name for line in lines if not answers.evaluate(line.holds, line.place)]


def collectives(changed: Mapping[tuple[str, str], float]) -> list[str]:
    """Of verify roce; ``changed`` are times by case and packets."""
    packets = [ALONE, "transport: static", *RATES.values(), HPCC, SPRAYED]
    spread = [f"{each}, window: False" for each in RATES.values()]
    times = {(case, each): 1.0 for case in ("ring", "halving_doubling") for each in packets}
    times |= {(case, each): 1.0 for case in ("racks", "nvlink", "all_to_all") for each in packets}
    times |= {("all_to_all", each): 1.0 for each in spread}
    times |= {(case, HPCC): 1.04 for case, each in times if each == HPCC}
    times |= {("halving_doubling", SPRAYED): 0.5, ("all_to_all", RATES["DCQCN"]): 2.0}
    times |= {("halving_doubling", f"{RATES['DCQCN']}, spray: True"): 0.5}
    tables: dict[str, list[dict[str, Any]]] = {}
    for cell, ((case, each), time) in enumerate((times | changed).items()):
        table = f"roce_{case}" if case in ("racks", "nvlink", "all_to_all") else "rows"
        row = {"collective.algorithms": case, "network.packets": each, "cell": cell}
        tables.setdefault(table, []).append(row | {"time_s": time})
    return failed("roce", tables)


@pytest.mark.long
def test_each_point_of_collectives_looks_at_its_own_times() -> None:
    assert collectives({}) == []
    assert collectives({("ring", RATES["TIMELY"]): 1.06}) == ["ring: DCQCN, DCTCP, TIMELY"]
    late = collectives({("nvlink", RATES["DCTCP"]): 0.94})
    assert late == ["NVLink and Clos: DCQCN, DCTCP, TIMELY"]
    (pays,) = collectives({("racks", HPCC): 0.99})
    assert pays.startswith("HPCC pays")
    (last,) = collectives({("halving_doubling", SPRAYED): 1.1})[-1:]
    assert last.startswith("collisions of ECMP's hashes")
    alike = collectives({("all_to_all", RATES["DCQCN"]): 1.0})
    assert alike == ["direct all-to-all tells them apart", "the window's part, direct all-to-all"]
    (window,) = collectives({("all_to_all", "transport: static"): 2.5})
    assert window.startswith("the window's part")


def iterations(changed: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Of verify roce_training; ``changed`` are times by model, case and packets."""
    usual = {ALONE: 1.0, **dict.fromkeys(RATES.values(), 1.0), RATES["DCTCP"]: 1.04, HPCC: 1.1}
    more = {"transport: static": 1.0, SPRAYED: 0.5, f"{RATES['DCQCN']}, spray: True": 0.6}
    models = ("roce_dlrm", "roce_gpt3_13b", "resnet50")
    cases = ("ring", "halving_doubling", "racks", "nvlink")
    times = {(m, c, each): time for m in models for c in cases for each, time in usual.items()}
    times |= {(m, "collisions", each): time for m in models for each, time in more.items()}
    tables: dict[str, list[dict[str, Any]]] = {}
    for cell, ((model, case, each), time) in enumerate((times | changed).items()):
        table = "rows" if case in cases[:2] else f"roce_training_{case}"
        row = {"workload": model, "collective.algorithms": case, "network.packets": each}
        tables.setdefault(table, []).append(row | {"cell": cell, "time_s": time})
    return failed("roce_training", tables)


@pytest.mark.long
@pytest.mark.parametrize(
    ("run", "time", "point"),
    [
        (("roce_dlrm", "ring", RATES["TIMELY"]), 1.06, "DLRM, ring: DCQCN, DCTCP, TIMELY"),
        (("resnet50", "racks", RATES["DCQCN"]), 0.9, "ResNet-50, hierarchical: DCQCN, DCTCP"),
        (("roce_gpt3_13b", "ring", HPCC), 1.14, "GPT-3 13B: HPCC"),
        (("roce_dlrm", "collisions", SPRAYED), 1.1, "DLRM, halving-doubling: collisions of"),
        (("resnet50", "collisions", "transport: static"), 0.9, "ResNet-50, halving-doubling: the"),
    ],
)
def test_each_point_of_iterations_looks_at_its_own_times(
    run: tuple[str, str, str], time: float, point: str
) -> None:
    assert iterations({}) == []
    (name,) = iterations({run: time})
    assert name.startswith(point)


FINE = {"time_s": 0.010, "packets_dropped": 0, "timeouts": 0}
LATE = {"time_s": 0.020, "packets_dropped": 90, "timeouts": 9}
BUFFERS = ("32 MiB", "2048 kB", "1024 kB", "512 kB", "256 kB", "128 kB", "64 kB")


def buffers(changed: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> list[str]:
    """Of verify tcp; ``changed`` are outcomes by table, all-to-all and buffer."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for table, first in (("rows", 2), ("tcp_nodes", 6)):
        for cell, (name, i) in enumerate(
            (name, i) for name in ("direct", "pairwise", "bruck") for i in range(7)
        ):
            found = changed.get((table, name, BUFFERS[i]), LATE if i >= first else FINE)
            tables.setdefault(table, []).append(
                cells(table, name, BUFFERS[i]) | found | {"cell": cell}
            )
    for table, of in (("tcp_timers", "rows"), ("tcp_nodes_timers", "tcp_nodes")):
        tables[table] = [
            cells(of, "direct", buffer)
            | LATE
            | {"cell": rto, "time_s": time}
            | {"network.packets.rto_min": f"{rto} ms"}
            for buffer in ("512 kB", "128 kB")
            for rto, time in (
                (10, 0.03),
                (200, changed.get((table, "", buffer), LATE)["time_s"] * 11),
            )
        ]
    return failed("tcp", tables)


def cells(table: str, name: str, buffer: str) -> dict[str, str]:
    """The columns of the grid, as a study writes them."""
    nodes = table == "tcp_nodes"
    name, buffer = (f"[auto, {name}]", f"[32 MiB, {buffer}]") if nodes else (name, buffer)
    return {"collective.all_to_all": name, "network.packets.buffer": buffer}


def test_each_point_of_buffers_looks_at_its_own_outcomes() -> None:
    assert buffers({}) == []
    assert buffers({("tcp_nodes", "bruck", "1024 kB"): LATE}) == ["bruck: who suffers first"]
    assert buffers({("tcp_nodes", "pairwise", "128 kB"): LATE}) == ["pairwise: who suffers more"]
    silent = buffers({("rows", "direct", "128 kB"): LATE | {"packets_dropped": 0}})
    assert silent == ["what the flat topology drops, direct"]
    short = buffers({("tcp_timers", "", "512 kB"): {"time_s": 0.001}})
    assert short == ["TCP's least time-out (1, 10 and 200 ms), direct"]


# --- small cases ---------------------------------------------------------------------------------


def result(study: str, *overrides: str) -> Result:
    """One design of a study, whatever its grid."""
    config = compose([f"study={study}", *overrides]).config
    program = build_program(config)
    run = run_messages(program, config.fidelity) if config.by_message else run_one(program)
    return Result(run)


SMALL = (
    "workload.layers=[{name: all, weight_grad: {duration: 0 ns, collective: all_reduce,"
    " size: 64 kB, group: data}}]",
    "collective.algorithms=halving_doubling",
)


def test_a_hierarchy_of_two_racks_is_never_marked() -> None:
    shape = "topology.shape=Switch(16)_Switch(2)"
    alone, dcqcn, hpcc = (
        result("roce_racks", shape, *SMALL, f"network.packets.transport={name}").time
        for name in ("static", "dcqcn", "hpcc")
    )
    assert alone == dcqcn < hpcc
    assert 0 < result("roce_nvlink", "topology.shape=Switch(8)_Switch(4)", *SMALL).time < alone


def test_a_smaller_iteration_on_faster_npus_is_as_many_times_shorter() -> None:
    """Its computation is, and its collectives move as many times less."""
    own = ("workload=resnet50", "topology.shape=Switch(32)", "collective.algorithms=ring")
    phase = ("fidelity=phase", "network=default")
    small = result("roce_training", *own, *phase)
    rates = "{fp32: 19.5 TFLOP/s, fp16: 312 TFLOP/s, bf16: 312 TFLOP/s}"
    npu = ("npu.memory_bandwidth=2039 GB/s", "npu.launch=3.2 us", f"npu.flops={rates}")
    full = result("roce_training", *own, *phase, *npu, "workload.scale=1")
    assert small.compute * 4 == pytest.approx(full.compute, rel=1e-4)
    assert small.bytes_by_dim == {
        dim: pytest.approx(n_bytes / 4) for dim, n_bytes in full.bytes_by_dim.items()
    }


def test_a_scale_of_nothing_is_refused() -> None:
    for wrong in ("0", "-1", ".inf", "many"):
        with pytest.raises(Exception, match=r"workload\.scale"):
            compose(["study=roce_training", f"workload.scale={wrong}"])


@pytest.mark.long
def test_a_small_iteration_drops_more_on_the_flat_topology() -> None:
    few = ("workload.plan.micro_batch=16", "workload.model.rows=1000")
    flat, ample = (
        result("tcp", *few, "collective.all_to_all=direct", f"network.packets.buffer={each}")
        for each in ("64 kB", "32 MiB")
    )
    nodes = result("tcp_nodes", *few, "network.packets.buffer=[32 MiB, 64 kB]")
    assert flat.packets is not None and ample.packets is not None and nodes.packets is not None
    assert ample.packets.dropped == 0 < ample.exposed < ample.time < flat.time
    assert flat.packets.dropped > nodes.packets.dropped
