"""Running a planned study in its folder: the same for the command line and for Python."""

from collections.abc import Callable

from sweeper.ledger.ledger import Ledger
from sweeper.run.driver import Progress, run_sweep
from sweeper.run.executor import make_executor
from sweeper.study.plan import StudyPlan


def run_in(
    ledger: Ledger,
    plan: StudyPlan,
    watch: Callable[[Progress], None],
    tell: Callable[[str], None],
) -> Progress:
    """Run ``plan``, or continue it, with its rows in ``ledger``; what it has done.

    ``watch`` sees the progress, and ``tell`` is given what a user should know of the workers, who
    are let go of in the end, whatever ends it.
    """
    cells = [cell.cell for cell in plan.cells]
    executor = make_executor(plan.config, cells, plan.schema, tell=tell)
    try:
        return run_sweep(plan, ledger, executor, watch)
    finally:
        executor.close()
