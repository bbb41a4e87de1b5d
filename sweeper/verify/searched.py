"""The searches of a study, run here and forgotten: what each cell found."""

from tempfile import TemporaryDirectory

from sweeper.config.compose import compose
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.load import load
from sweeper.report.summary import CellSummary, summarise
from sweeper.run.driver import run_sweep
from sweeper.run.executor import make_executor
from sweeper.study.plan import plan_study


def run_searches(study: str, *overrides: str) -> list[CellSummary]:
    """The summary of every cell of a study, in the grid's order; ``overrides`` are Hydra's."""
    with TemporaryDirectory() as folder:
        quiet = ["executor=inline", f"results={folder}", "what_if=null"]
        given = [f"study={study}", *quiet, *overrides]
        plan = plan_study(compose(given))
        with Ledger(plan.folder, plan.study, plan.schema) as ledger:
            executor = make_executor(plan.config, [cell.cell for cell in plan.cells], plan.schema)
            try:
                run_sweep(plan, ledger, executor, lambda progress: None)
            finally:
                executor.close()
        return summarise(load(plan.folder).to_pandas(), plan.study)
