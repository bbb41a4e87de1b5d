"""What a search among networks and plans takes: cells closed by each level, seconds of one core and
memory; with one actor or several; and with what would change its answer."""

import os
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.study import peak_megabytes, sweep
from benchmarks.which_search import searched
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import Proof, read_study
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor import make_executor

_STUDIES = ("gpt3_1k", "mixtral_2k", "llama405b_16k", "deepseek_2k")
_STUDY = "studies/which_network_gpt3_1k.yaml"
_FEWER = (  # each leaves out some of the cells that the study has
    "space.network.cost=42940000 USD",
    "space.plan.tensor=[8]",
    "space.plan.pipeline=[8]",
    "space.plan.interleave=[1, 2]",
    "space.plan.micro_batch=[1]",
    "space.plan.zero=[1]",
    "space.plan.recompute=[selective]",
)


def main() -> None:
    """Print all tables."""
    scale()
    actors()
    for name in _STUDIES:
        whole(name)


def whole(name: str) -> None:
    """Print what the search of a study takes, alone and with what would change its answer."""
    found = list[Proof]()
    for what, without in (("alone", ["what_if=null"]), ("with what-ifs", [])):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            words = [f"study=studies/which_network_{name}.yaml", *without, f"results={folder}"]
            proof, _ = searched(plan_study(compose(words)))
            took = time.process_time() - start
            found.append(proof)
        print(
            f"{name:14} {proof.cells:9,} cells, {proof.simulated} simulated, {what}:"
            f" {took:.1f} CPU s",
            flush=True,
        )
    assert found[0].best == found[1].best


def scale() -> None:
    """Print a line for each space, each larger than the one before, so that the process' peak of
    memory is the last one's."""
    print("    cells   level 0   level 1  level 2  simulated  CPU s  peak GB")
    for left_out in range(len(_FEWER), -1, -1):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            words = [
                f"study={_STUDY}",
                "budget.gap=0",
                "what_if=null",
                *_FEWER[len(_FEWER) - left_out :],
            ]
            proof, _ = searched(plan_study(compose([*words, f"results={folder}"])))
            took = time.process_time() - start
        peak = peak_megabytes() * 1024 / 1e6
        first, second, third = proof.excluded
        print(
            f"{proof.cells:9,} {first:9,} {second:9,} {third:8,} {proof.simulated:10,}"
            f" {took:6.1f} {peak:8.2f}",
            flush=True,
        )


def actors() -> None:
    """Print what a middling space takes with so many actors: by the clock, of this process, and of
    all that it started (Ray's own processes, and actors)."""
    print("actors  seconds  CPU s  CPU s of Ray and actors")
    proofs = list[Proof | None]()
    for n in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            clock, own = time.perf_counter(), time.process_time()
            words = [f"study={_STUDY}", "budget.gap=0", "what_if=null", *_FEWER[2:]]
            plan = plan_study(compose([*words, f"executor.actors={n}", f"results={folder}"]))
            with closing(make_executor(plan.config, plan.simulated, plan.schema)) as executor:
                sweep(plan, executor)
                clock, own = time.perf_counter() - clock, time.process_time() - own
                print(f"{n:6} {clock:8.1f} {own:6.1f} {_seconds_below(os.getpid()):24.1f}")
            proofs.append(read_study(plan.folder).proof)
    assert proofs[0] == proofs[1] == proofs[2]


def _seconds_below(pid: int) -> float:
    """CPU seconds of the processes that one started, and that these did, as far as they run."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended
            fields = file.read_text().rpartition(")")[2].split()
            own = int(file.parent.name)
            parents[own], ticks[own] = int(fields[1]), int(fields[11]) + int(fields[12])
    below, found = {pid}, 0
    while new := {own for own, parent in parents.items() if parent in below} - below:
        below |= new
        found += sum(ticks[own] for own in new)
    return found / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
