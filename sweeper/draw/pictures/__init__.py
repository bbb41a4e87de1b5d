"""The pictures of a report, each in a file of its own and one line here, in reading order."""

from sweeper.draw.canvas import Picture
from sweeper.draw.pictures import (
    best_split,
    convergence,
    messages,
    next_bandwidth,
    pareto,
    regret,
    split_map,
)

PICTURES: tuple[Picture, ...] = (
    regret.PICTURE,
    convergence.PICTURE,
    best_split.PICTURE,
    split_map.PICTURE,
    pareto.PICTURE,
    next_bandwidth.PICTURE,
    messages.PICTURE,
)
