"""What a study asks, by what varies in it."""

from enum import StrEnum

from dimsweep.sweeper.config.roles import is_plan
from dimsweep.sweeper.report.decisions import SPENT, Decisions
from dimsweep.sweeper.report.summary import CellSummary


class Question(StrEnum):
    """The kinds of questions; each has a sentence of its own."""

    SPLIT = "split"  # how to divide bandwidth over the dimensions
    PLAN = "plan"  # how to run a model on what is there
    NETWORK = "network"  # which of several networks, chips or libraries
    PRICE = "price"  # what one design is at several prices, or budgets
    FRONT = "front"  # what is traded for what
    SCENARIOS = "scenarios"  # how one design fares in several scenarios


def question(decisions: Decisions) -> Question:
    """What is asked, of two objectives, decisions of the grid or the search, and scenarios."""
    cells = list(decisions.cells.values())
    if len(cells[0].objectives) > 1:
        return Question.FRONT
    decided = _decided(decisions, cells[0])
    if decided and all(map(is_plan, decided)):
        return Question.PLAN
    if decided:
        return Question.NETWORK
    if len(decisions.scenarios) == 1:
        return Question.SPLIT
    varied = {axis.split(".")[0] for axis in decisions.scenarios[0]}
    return Question.PRICE if varied <= set(SPENT) else Question.SCENARIOS


def _decided(decisions: Decisions, cell: CellSummary) -> list[str]:
    """The keys of which the study chooses the values; a split has none."""
    axes = list(decisions.decisions[0]) if len(decisions.decisions) > 1 else []
    return [*axes, *cell.parameters]
