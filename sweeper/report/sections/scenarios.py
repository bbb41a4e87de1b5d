"""For each scenario the best decision, what it gains and costs, and how near the next one is."""

from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet


def table(report: Report) -> list[Sheet]:
    """A row for each scenario, where several decisions compete in several."""
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    cells = [decisions.best(s) for s in range(len(decisions.scenarios))]
    keys = list(decisions.scenarios[0])
    has_baseline = any(cell.reference and cell.reference.is_common for cell in cells)
    priced = any(cell.priced for cell in cells)
    objective = decisions.objective
    columns = [*naming.short_keys(keys), "best", objective.name.replace("_", " ")]
    columns += ["over the\nbaseline"] * has_baseline
    columns += [words.cost_head(cells)] * priced + ["runner-up", "it is"]
    rows = []
    for s, cell in enumerate(cells):
        row = [*decisions.scenarios[s].values(), _design(decisions, s)]
        row.append(objective.show(objective.of(cell.best)))
        row += [words.ratio(cell.gain(objective))] * has_baseline
        row += [words.million_usd(cell.best["cost_usd"])] * priced
        found = decisions.behind(s)
        row += ["-", "-"] if found is None else [decisions.name(found[0]), words.behind(found[1])]
        rows.append(tuple(row))
    return [Sheet("The best in each scenario", tuple(columns), rows, n_names=len(keys) + 1)]


def _design(decisions: Decisions, scenario: int) -> str:
    """The best decision, with the values of the searched keys."""
    cell, name = decisions.best(scenario), decisions.name(decisions.order(scenario)[0])
    own = naming.searched(cell, cell.best)
    return f"{name}; {own}" if own else name


SECTION = Section(of_study=table)
