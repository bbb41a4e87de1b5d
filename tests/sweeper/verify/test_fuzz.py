"""Whatever is in a table of measurements or a study's record, it ends in one sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.ledger.record import StudyRecord, read_study
from sweeper.verify.astra_sim import find_cases
from sweeper.verify.clusters.measurements import find_tables, read_table
from sweeper.verify.nccl import read_rows
from sweeper.verify.packet_cases import read_cases
from tests.support.examples import times
from tests.support.mutations import end_in_a_sentence, of_bytes, of_values

GOLDEN = Path(__file__).parents[2] / "golden"
STUDY = StudyRecord(name="s", model=1, rows=1, objective=("time",), config={"a": {"b": 1}})


def head(file: str) -> bytes:
    """A recorded table's first lines."""
    return b"".join((GOLDEN / file).read_bytes().splitlines(keepends=True)[:4])


def beside(cases: Path) -> Path:
    """The folder of recorded packets, with what each case refers to."""
    for name in ("topologies", "scenarios", "base_config"):
        shutil.copy(GOLDEN / f"roce/{name}.json", cases.parent)
    return cases.parent


READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "collectives": ("nccl.csv", lambda: head("nccl.csv"), read_rows),
    "iterations": (
        "iterations.csv",
        lambda: head("clusters/torchtitan_h100.csv"),
        lambda file: [list(read_table(table)) for table in find_tables(file.parent)],
    ),
    "result.json": (
        "result.json",
        lambda: (GOLDEN / "astra/A/all_gather_Ring64_ring_1MB_c4/result.json").read_bytes(),
        lambda file: [case.left_out or case.expected() for case in find_cases([file.parent])],
    ),
    "recorded packets": (
        "cases_asis.jsonl",
        lambda: head("roce/cases_asis.jsonl"),
        lambda file: [case.left_out for case in read_cases(beside(file))],
    ),
    "study.json": ("study.json", STUDY.to_json, lambda file: read_study(file.parent)),
}


@pytest.mark.parametrize("name", READERS)
def test_mutated_tables_end_in_a_sentence(name: str, tmp_path: Path) -> None:
    file, original, read = READERS[name]
    end_in_a_sentence(name, original(), tmp_path / file, read, 200)


@pytest.mark.parametrize("mutate", [of_bytes, of_values])
@pytest.mark.parametrize("name", ["topologies", "scenarios", "base_config"])
def test_mutated_scenarios_end_in_a_run_or_a_sentence(
    name: str, tmp_path: Path, mutate: Callable[..., bytes]
) -> None:
    (tmp_path / "cases_asis.jsonl").write_bytes(head("roce/cases_asis.jsonl"))
    beside(tmp_path / "cases_asis.jsonl")
    file = tmp_path / f"{name}.json"
    whole = file.read_bytes()

    def run(_: Path) -> None:
        for case in read_cases(tmp_path):
            case.simulate()

    end_in_a_sentence(name, whole, file, run, times(50), mutate)
