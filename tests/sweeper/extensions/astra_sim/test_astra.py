"""ASTRA-sim's recorded runs, to the cycle; and what we say where it crashes, hangs or is silent."""

import json
import shutil
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.extensions.astra_sim import Cycles, lower_astra
from dimsweep.engine.extensions.astra_sim.workload import interpret
from dimsweep.engine.formats.chakra import NodeType, Trace, TraceNode, write_trace
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.extensions.astra_sim.verify import Case, find_cases, read_case, run_case
from tests.support.golden import astra_case, astra_cases

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "peak-perf": 900,
}
NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"


def is_exact(case: Case, ours: Cycles) -> bool:
    cycles, exposed = case.expected()
    return list(ours.cycles) == cycles and list(ours.exposed) == exposed


# Nodes of ranks that differ: plain Python simulates as many in less than a second.
IN_PYTHON = 2000


@pytest.mark.long
@pytest.mark.parametrize("section", ["A", "B", "C", "D", "E"])
def test_every_recorded_case_to_the_cycle(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The compiled kernel, where that does not take long, in what was not recorded, too, as plain
    Python."""
    compared = [case for case in astra_cases(section) if not case.left_out]
    wrong, compiled, in_python = [], 0, 0
    for case in compared:
        program = lower_astra(*read_case(case))
        ours = program.run()
        if not is_exact(case, ours):
            wrong.append(case.folder.name)
        if ours.compiled:
            compiled += 1
            if sum(len(program.traces[rank]) for rank in program.folding.first) <= IN_PYTHON:
                in_python += 1
                witness = interpret(program.inputs, program.traces, program.folding)
                assert ours.of_kind == witness.of_kind, case.folder.name
    with capsys.disabled():
        agree = len(compared) - len(wrong)
        print(
            f"\nASTRA-sim, section {section}: {agree} of {len(compared)} cases to the cycle, "
            f"{compiled} compiled, {in_python} of them as plain Python too"
        )
    assert not wrong
    assert compared
    assert in_python > len(compared) / 2


@pytest.mark.long
@pytest.mark.parametrize("section", ["A", "E"])
def test_folding_changes_no_cycle(section: str) -> None:
    """The whole corpus takes half an hour: dimsweep verify astra_sim --fold=false."""
    small = [case for case in astra_cases(section) if case.result["npus"] <= 16]
    assert len(small) > 30
    for case in small:
        if not case.left_out:
            assert is_exact(case, run_case(case, folded=False)), case.folder.name


def test_alike_ranks_are_simulated_once() -> None:
    pipeline = astra_case("D/gpt_small_8_tp2_dp2_pp2__R4S2_c16_act4")
    scaling = astra_case("C/ScaleConv3D-64_all_reduce_1GB_c64_baseline_LIFO")
    assert run_case(pipeline).n_kinds == 2  # the stages
    assert run_case(scaling).n_kinds == 1


@pytest.mark.long
def test_our_times_of_computing_and_communicating() -> None:
    for case in astra_cases("D"):
        if not case.folder.name.startswith("gpt_small"):
            continue
        ours = run_case(case)
        assert ours.gpu[0] == case.result["gpu_time_rank0"]
        assert ours.communication[0] == case.result["comm_time_rank0"]


def test_recorded_runs_are_points_for_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = astra_case("E/ring2_unaware").folder
    case = shutil.copytree(here, tmp_path / "E" / "case")
    assert main(["verify", "astra_sim", str(tmp_path), "--json"]) == 0
    (good,) = json.loads(capsys.readouterr().out)
    assert good["name"] == "E/case" and good["verdict"] and good["ours"] == good["published"]
    result = json.loads((case / "result.json").read_text())
    result["per_rank"]["all_ranks"]["cycles"] += 1
    (case / "result.json").write_text(json.dumps(result))
    assert main(["verify", "astra_sim", str(tmp_path), "--json"]) == 1
    (bad,) = json.loads(capsys.readouterr().out)
    assert not bad["verdict"] and bad["ours"].startswith("rank 0: cycles: expected")


# --- inputs written here -------------------------------------------------------------------------


def collective(number: int, size: int, after: tuple[int, ...] = (), **more: object) -> TraceNode:
    attributes = {"comm_type": 0, "comm_size": size, "is_cpu_op": False, **more}
    return TraceNode(number, f"c{number}", NodeType.COMM_COLL, after, (), 0, 0, attributes)


class Files:
    """A run's files in a folder, and the command that runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = [f"--workload-configuration={folder / 'w'}"]
        self.write("system", json.dumps(SYSTEM), "system.json")
        self.write("network", NETWORK, "network.yml")

    def write(self, option: str, text: str, name: str) -> None:
        file = self.folder / name
        file.write_text(text)
        word = f"--{option}-configuration="
        self.words = [w for w in self.words if not w.startswith(word)] + [f"{word}{file}"]

    def system(self, **changes: object) -> None:
        keys = {key.replace("_", "-"): value for key, value in changes.items()}
        self.write("system", json.dumps({**SYSTEM, **keys}), "system.json")

    def traces(self, *ranks: list[TraceNode]) -> None:
        for rank, nodes in enumerate(ranks):
            write_trace(self.folder / f"w.{rank}.et", Trace(tuple(nodes)))

    def run(self, *more: str) -> dict[str, object]:
        out = self.folder / "out.json"
        assert main(["astra", *self.words, f"--json={out}", *more]) == 0
        return json.loads(out.read_text())

    def fails(self, capsys: pytest.CaptureFixture[str], *more: str) -> str:
        assert main(["astra", *self.words, *more]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ") and "Traceback" not in error
        return error


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    files.traces(*[[collective(0, 2**20)]] * 4)
    return files


def test_the_command_prints_what_astra_sim_prints(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    result = files.run()
    # 4 chunks of 6 steps of 64 KiB: 1220 + 500 + 10 ns; 10 ns before and 3 reductions of 120 ns.
    assert result["cycles"] == [4 * (6 * (1220 + 500 + 10) + 10 + 3 * 3 * 40)] * 4
    text = capsys.readouterr().out
    cycles = result["cycles"][0]
    assert f"sys[3] finished, {cycles} cycles, exposed communication {cycles} cycles." in text
    assert "4 ranks, 1 simulated" in text
    assert files.run("--fold=false")["cycles"] == result["cycles"]
    assert files.run("--congestion=aware")["cycles"] == result["cycles"]


def test_the_shared_options_of_the_binary_are_taken(files: Files) -> None:
    base = files.run()["cycles"]
    assert files.run("--comm-scale=2", "--logging-configuration=empty")["cycles"] == base
    assert files.run("--injection-scale=2")["cycles"][0] == base[0] + 4 * 7 * 10
    assert files.run("--rendezvous-protocol=true")["cycles"][0] > base[0]


@pytest.mark.parametrize(
    ("option", "name", "text", "told"),
    [
        ("network", "network.yml", "topology: [ Ring ]\n", "network.yml: npus_count"),
        ("network", "network.yml", NETWORK.replace("Ring", "Torus"), "unknown topology 'Torus'"),
        ("network", "network.yml", NETWORK.replace("50.0", "0"), "network.yml: bandwidth"),
        ("network", "network.yml", NETWORK.replace("[ 4 ]", "[ 4, 2 ]"), "2 entries for 1"),
        ("network", "network.yml", "{", "not YAML"),
        ("system", "system.json", "{", "not JSON"),
        ("system", "system.json", "[]", "not a mapping"),
        ("system", "system.json", '{"preferred-dataset-splits": 0}', "preferred-dataset-splits"),
        (
            *("system", "system.json"),
            '{"preferred-dataset-splits": 1000000000000000000}',
            "preferred-dataset-splits",
        ),
        ("system", "system.json", '{"endpoint-delay": "x"}', "system.json: endpoint-delay"),
        (
            "system",
            "system.json",
            '{"scheduling-policy": "RANDOM"}',
            "'LIFO', 'FIFO' or 'EXPLICIT'",
        ),
        ("system", "system.json", '{"model-shared-bus": 1, "G": -1}', "system.json: G"),
        ("system", "system.json", "{}", "all-reduce-implementation"),
        ("remote-memory", "memory.json", '{"memory-type": "MEMORY_POOL"}', "remote-mem-bw"),
        ("comm-group", "groups.json", '{"1": [0, 9]}', "groups.json: 1"),
    ],
)
def test_wrong_files_are_told(
    files: Files,
    option: str,
    name: str,
    text: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files.write(option, text, name)
    assert told in files.fails(capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--network-configuration=nowhere.yml"], "nowhere.yml"),
        (["--workload-configuration=nowhere"], "nowhere.0.et"),
        (["--unheard-of=1"], "unheard-of"),
        (["--num-queues-per-dim=0"], "--num-queues-per-dim"),
        (["--rendezvous-protocol=maybe"], "--rendezvous-protocol"),
    ],
)
def test_wrong_words_are_told(
    files: Files, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in files.fails(capsys, *words)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["astra", "--help"]) == 0
    assert "--workload-configuration" in capsys.readouterr().out


# --- where ASTRA-sim crashes, hangs or is silent -------------------------------------------------


def test_orders_that_differ_are_a_deadlock_that_is_explained(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write("comm-group", '{"1": [0, 1, 2], "2": [0, 1, 3]}', "groups.json")
    one, two = ({"pg_name": name} for name in ("1", "2"))
    files.traces(
        [collective(0, 4096, **one), collective(1, 4096, **two)],
        [collective(0, 4096, **two), collective(1, 4096, **one)],
        [collective(0, 4096, **one)],
        [collective(0, 4096, **two)],
    )
    error = files.fails(capsys)
    assert "deadlock: 4 of 4 ranks" in error
    assert "rank 0: 2 nodes left, at c0" in error


def test_a_group_of_one_communicates_nothing(files: Files) -> None:
    files.write("comm-group", '{"1": [0], "2": [1], "3": [2], "4": [3]}', "groups.json")
    files.traces(*[[collective(0, 4096, pg_name=str(rank + 1))] for rank in range(4)])
    assert files.run()["cycles"] == [0] * 4


def test_nodes_that_do_nothing_do_not_stall(files: Files) -> None:
    """ASTRA-sim frees their children and looks for work only at the next completion."""
    nothing = TraceNode(0, "metadata", NodeType.METADATA)
    files.traces(*[[nothing, collective(1, 2**20, (0,))]] * 4)
    with_node = files.run()["cycles"]
    files.traces(*[[collective(1, 2**20)]] * 4)
    assert with_node == files.run()["cycles"]


def test_an_all_gather_smaller_than_its_splits_ends(files: Files) -> None:
    files.traces(*[[collective(0, 1, comm_type=2)]] * 4)
    assert files.run()["cycles"][0] > 0


def test_a_roofline_without_operations_or_without_a_peak(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    node = TraceNode(0, "copy", NodeType.COMP, (), (), 0, 0, {"num_ops": 0, "tensor_size": 16000})
    files.traces(*[[node]] * 4)
    files.system(roofline_enabled=1)
    assert files.run()["cycles"] == [10] * 4  # of 1600 GB/s
    files.system(roofline_enabled=1, peak_perf=0)
    assert "peak-perf" in files.fails(capsys)


def test_no_endpoint_delay_is_no_crash(files: Files) -> None:
    files.system(endpoint_delay=0)
    assert files.run()["cycles"][0] > 0


@pytest.mark.parametrize(
    ("algorithm", "npus", "told"),
    [("halvingDoubling", 6, "a power of 2"), ("magic", 4, "magic")],
)
def test_algorithms_that_cannot_run_are_told(
    files: Files, algorithm: str, npus: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files.system(all_reduce_implementation=[algorithm])
    files.write("network", NETWORK.replace("4", str(npus)), "network.yml")
    files.traces(*[[collective(0, 6 * 2**20)]] * npus)
    assert told in files.fails(capsys)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"pg_name": "7"}, "unknown communicator group '7'"),
        ({"comm_type": 1}, "type 1"),
        ({"comm_type": 99}, "type 99"),
        ({"comm_size": "big"}, "comm_size"),
    ],
)
def test_nodes_that_make_no_sense_are_told(
    files: Files,
    attributes: dict[str, object],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files.traces(*[[collective(0, 4096, **attributes)]] * 4)
    error = files.fails(capsys)
    assert told in error and "c0" in error


def test_a_message_to_nobody_is_told(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    attributes = {"comm_size": 10, "comm_src": 0, "comm_dst": 9, "comm_tag": 1}
    send = TraceNode(0, "send", NodeType.COMM_SEND, (), (), 0, 0, attributes)
    files.traces(*[[send]] * 4)
    assert "rank 9" in files.fails(capsys)


def test_a_receive_without_a_send_is_a_deadlock(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    attributes = {"comm_size": 10, "comm_src": 1, "comm_dst": 0, "comm_tag": 1}
    receive = TraceNode(0, "receive", NodeType.COMM_RECV, (), (), 0, 0, attributes)
    files.traces([receive], *[[collective(0, 4096, pg_name="1")]] * 3)
    files.write("comm-group", '{"1": [1, 2, 3]}', "groups.json")
    error = files.fails(capsys)
    assert "deadlock: 1 of 4 ranks" in error and "receive" in error


def test_a_mismatch_is_told_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = astra_cases("A")[0].folder
    for file in source.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    result = json.loads((tmp_path / "result.json").read_text())
    result["per_rank"] = {"all_ranks": {"cycles": 1, "exposed": 1}}
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert main(["verify", "astra_sim", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "rank 0: cycles: expected 1, got" in text
    assert text.splitlines()[-1] == "0 of 1 cases agree"
    assert main(["verify", "astra_sim", str(source)]) == 0


def test_a_folder_without_recorded_cases_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "astra_sim", "nowhere"]) == 1
    assert "no recorded case" in capsys.readouterr().err


def test_a_damaged_case_is_told(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(DimsweepError, match=r"result\.json"):
        find_cases([tmp_path])
