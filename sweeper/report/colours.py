"""Colours of charts, pictures, timelines and the board.

Compared series have Okabe and Ito's colours, which colour-blind readers can distinguish. A network
dimension has the same colour in all drawings. No dimension has the colour of a role (best, equal
split, proven bound).
"""

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#8A8F98"
WAITING = "#C3C8CF"  # for other ranks, which no dimension does; compute is grey
PALETTE = ("#8E63B0", "#56B4E9", "#D55E00", "#B8A900", "#CC79A7", "#3B9C9C", "#A65628")
SERIES = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", "#D55E00", "#B8A900", GREY)


def dimension_colour(d: int) -> str:
    """Return the colour of network dimension ``d``; 0 is the innermost."""
    return PALETTE[d % len(PALETTE)]


def series_colour(i: int) -> str:
    """Return the colour of the ``i``-th compared series, counted from 0."""
    return SERIES[i % len(SERIES)]
