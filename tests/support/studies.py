"""Small studies, and how the tests run them."""

import random
from collections.abc import Callable, Sequence

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor import Executor, make_executor
from dimsweep.sweeper.run.executor.evaluate import Outcome
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import Progress, StudyPlan, run_sweep

SMALL = ("study=libra_gpt3_4d", "collective.chunks=8", "budget.trials=40", "what_if=null")
# Of eight NPUs, so that its designs can be simulated message by message too.
TINY = (
    "study=libra_gpt3_4d",
    "profile=native",
    "workload.layers=1",
    "workload.parallel={tensor: 4, data: rest}",
    "topology.shape=Ring(4)_Switch(2)",
    "topology.latency=500 ns",
    "topology.tiers=[]",
    "collective.chunks=2",
    "search=random",
    "space.bandwidth.total=200 GB/s",
    "budget.trials=6",
    "what_if=null",
)
INLINE = {"executor.mode": "inline", "executor.timeout": None, "executor.memory": None}


def planned(words: Sequence[str], results: object) -> StudyPlan:
    """The study of ``words``, with its results in the folder ``results``."""
    return plan_study(compose([*words, f"results={results}"]))


def run(
    plan: StudyPlan,
    executor: Executor | None = None,
    *,
    retry_failed: bool = False,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Run a plan in this process, or on an executor of its cells."""
    with Ledger(plan.folder, plan.study, plan.schema, retry_failed=retry_failed) as ledger:
        executor = executor or make_executor(
            plan.config.with_values(INLINE),
            plan.simulated,
            plan.schema,
        )
        return run_sweep(plan, ledger, executor, watch)


class Workers(InlineExecutor):
    """As ``n`` workers do, of which any may be the next that finishes a piece of three trials."""

    _SLICE = 3

    def __init__(self, plan: StudyPlan, n: int) -> None:
        inline = plan.config.with_values(INLINE).executor
        super().__init__(Setup(inline, plan.simulated, plan.schema, print))
        self.n_workers, self._chance = n, random.Random(n)

    def collect(self) -> Outcome | None:
        under_way = min(len(self._jobs), self.n_workers)
        self._jobs.insert(0, self._jobs.pop(self._chance.randrange(under_way)))
        return super().collect()
