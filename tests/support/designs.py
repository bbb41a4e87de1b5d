"""The designs of a study whose grid is the whole question: each cell simulated once, here."""

from dimsweep.engine import InfeasibleError, Result
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.split.grid import Grid, build_grid
from dimsweep.sweeper.simulation.simulate import simulate


def simulate_designs(study: str, *overrides: str) -> dict[tuple[str, ...], Result]:
    """The results of a study that searches nothing, by the values of its grid, in the grid's order.

    ``overrides`` are Hydra's.  A design that cannot be, such as one that does not fit its memory,
    has no entry; ``dimsweep sweep study=NAME`` tells why.
    """
    composed = compose([f"study={study}", *overrides])
    results = {}
    grid = Grid(composed, build_grid(composed.config), may_prune=True)
    for coordinates, cell in map(grid.compose, range(len(grid))):
        try:
            results[tuple(coordinates.values())] = simulate(cell.config)
        except InfeasibleError:
            continue
    return results
