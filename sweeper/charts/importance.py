"""How much each parameter matters for being among the best."""

import warnings
from typing import Any

import numpy as np
from bokeh.models import UIElement

from sweeper.charts.chart import Chart
from sweeper.charts.frame import BLUE, bars, rows
from sweeper.charts.points import Points
from sweeper.export.optuna import optuna_study
from sweeper.report.summary import CellSummary
from sweeper.report.words import percent

_FEWEST, _MOST = 20, 2000  # trials: fewer tell nothing, and more tell no more


def draw(points: Points) -> tuple[str, UIElement] | None:
    (summary, *others) = points.report.found
    shares = {} if others else importance(summary)
    if len(shares) < 2:
        return None
    titles = {f"bandwidth_{d}_GBps": name for d, name in enumerate(summary.dims)}
    names = [titles.get(key, key) for key in shares]
    chart = rows(names, "importance (%)")
    values = np.array(list(shares.values()))
    bars(chart, 100 * values, [percent(value) for value in values], BLUE, "importance")
    chart.legend.visible = False
    chart.x_range.start, chart.x_range.range_padding = 0.0, 0.4
    claim = f"of what tells the best tenth of the trials, {percent(values[0])} is {names[0]}"
    return claim, chart


def importance(summary: CellSummary) -> dict[str, float]:
    """The importance of each parameter that varies, 0..1 in sum, the largest first: how much of
    what tells the best tenth of the trials from the others is its own (PED-ANOVA; Watanabe et al.,
    IJCAI 2023), in the first objective.  Of many trials an even sample; nothing of too few."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    varied = [key for key in summary.design if summary.complete[key].nunique() > 1]
    if len(summary.complete) < _FEWEST or len(varied) < 2:
        return {}
    step = -(-len(summary.complete) // _MOST)
    study = optuna_study(summary, every=step)
    sign = summary.objective.sign

    def loss(trial: Any) -> float:
        return float(sign * trial.values[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that low values are wanted, as they are
        found = get_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(), params=varied, target=loss
        )
    return dict(found)


CHART = Chart("importance", "What matters most", draw)
