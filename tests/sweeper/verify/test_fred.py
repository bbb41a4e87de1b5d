"""The published study on FRED: what a few designs decide."""

import pytest

from sweeper.verify import fred
from sweeper.verify.designs import simulate_designs

SMALL = "workload.model.layers=2"  # of 78 and 128


def test_hot_spots_bisections_and_messages_are_the_papers() -> None:
    """The other bandwidths are in tests/engine/network/wafer."""
    assert all(point.holds for point in fred.fabrics())
    assert fred.message_rate("wafer_mesh") == pytest.approx(750)


def test_all_partitions_are_routed_side_by_side() -> None:
    assert fred.routes().holds


def test_streaming_weights_gain_what_was_published() -> None:
    grid = "grid={workload:[fred_transformer_1t],network:[wafer_mesh,fred_b,fred_d]}"
    designs = simulate_designs("fred", grid, SMALL)
    b, d = (fred.gain(designs, "fred_transformer_1t", each) for each in ("fred_b", "fred_d"))
    assert d == pytest.approx(1.40, rel=0.1)
    assert 1 < b < d


def test_groups_that_fit_no_mesh_gain_most() -> None:
    """With all layers it is 2.00."""
    grid = "grid={workload:[fred_transformer_17b],network:[wafer_mesh,fred_d]}"
    designs = simulate_designs("fred", grid, SMALL)
    assert 1.7 < fred.gain(designs, "fred_transformer_17b", "fred_d") < 2.4
