"""The description of a chart of the report."""

from collections.abc import Callable
from dataclasses import dataclass

from bokeh.models import UIElement

from dimsweep.sweeper.charts.points import Points


@dataclass(frozen=True)
class Chart:
    """A chart of the report: its name in Python and on the page, its caption, and its function.

    ``draw`` returns a sentence with the finding, without a full stop, and the chart; None if it
    would be empty.  ``coloured``: trials are coloured by their bottleneck.
    """

    name: str
    caption: str | Callable[[Points], str]
    draw: Callable[[Points], tuple[str, UIElement] | None]
    coloured: bool = False

    def captioned(self, points: Points) -> str:
        """Return the caption to show above the chart."""
        return self.caption if isinstance(self.caption, str) else self.caption(points)
