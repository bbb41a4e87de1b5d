"""What the benchmarks of networks and plans share: a search in this process, and a simulation."""

import time

from benchmarks.study import sweep
from dimsweep.engine import Program, run_batch
from dimsweep.sweeper.ledger.record import Proof, read_study
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.run.executor import make_executor
from dimsweep.sweeper.run.loop import StudyPlan


def searched(plan: StudyPlan) -> tuple[Proof, float]:
    """The proof of a study's search, and the seconds of one core that it took."""
    start = time.process_time()
    inline = {"executor.mode": "inline", "executor.timeout": None, "executor.memory": None}
    sweep(plan, make_executor(plan.config.with_values(inline), [], plan.schema))
    took = time.process_time() - start
    proof = read_study(plan.folder).proof
    assert proof is not None
    return proof, took


def simulated(designs: Designs, number: int, program: Program) -> float:
    """The loss of a cell, whose ``program`` is simulated."""
    where = designs.cells.locate(number)
    seconds = run_batch(program, program.bandwidth[None]).time[0] / 1e12
    return float(seconds * designs.loss_factors(where.row)[where.number])
