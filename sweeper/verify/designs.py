"""The designs of a study whose grid is the whole question: each cell simulated once, here."""

from engine import InfeasibleError, Result, run_one
from sweeper.build.program import build_program
from sweeper.config.compose import compose
from sweeper.config.schema import Config
from sweeper.study.grid import Grid
from sweeper.study.portfolio import grid_of


def simulate_designs(study: str, *overrides: str) -> dict[tuple[str, ...], Result]:
    """The results of a study that searches nothing, by the values of its grid, in the grid's order.

    ``overrides`` are Hydra's.  A design that cannot be, such as one that does not fit its memory,
    has no entry; ``dimsweep sweep study=NAME`` tells why.
    """
    composed = compose([f"study={study}", *overrides])
    results = {}
    grid = Grid(composed, grid_of(composed.config), may_prune=True)
    for coordinates, cell in map(grid.compose, range(len(grid))):
        try:
            results[tuple(coordinates.values())] = _simulate(cell.config)
        except InfeasibleError:
            continue
    return results


def _simulate(config: Config) -> Result:
    program = build_program(config)
    if not config.by_message:
        return Result(run_one(program))
    from engine.kernels.network import run_messages  # which few need

    return Result(run_messages(program, config.fidelity))
