"""The published studies on memory: the points that a few designs decide."""

from sweeper.verify.designs import simulate_designs
from sweeper.verify.hierarchical_memory import STUDY, TOKENS, compared


def test_hierarchical_memory_is_as_fast_as_drives_and_its_optimised_design_four_times() -> None:
    designs = simulate_designs(STUDY, f"grid={{workload.model.sequence:[{TOKENS}]}}")
    assert len(designs) == 3
    points = compared(designs)
    assert all(point.holds for point in points), points
