"""What a chart is."""

from collections.abc import Callable
from dataclasses import dataclass

from bokeh.models import UIElement

from dimsweep.sweeper.charts.points import Points


@dataclass(frozen=True)
class Chart:
    """A chart of the report: its name in Python and on the page, its caption, or what says it of
    the study, and what draws it.

    ``draw`` returns what is found, in a sentence without a full stop, and the chart; None where it
    would show nothing.  ``coloured``: by the bottleneck of a trial.
    """

    name: str
    caption: str | Callable[[Points], str]
    draw: Callable[[Points], tuple[str, UIElement] | None]
    coloured: bool = False

    def captioned(self, points: Points) -> str:
        """Return the caption over the chart."""
        return self.caption if isinstance(self.caption, str) else self.caption(points)
