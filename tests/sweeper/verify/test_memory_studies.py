"""The published studies on memory and on compute: the points that a few designs decide."""

from sweeper.verify import comet, compute_capability
from sweeper.verify.designs import simulate_designs
from sweeper.verify.hierarchical_memory import STUDY, TOKENS, compared


def test_hierarchical_memory_is_as_fast_as_drives_and_its_optimised_design_four_times() -> None:
    designs = simulate_designs(STUDY, f"grid={{workload.model.sequence:[{TOKENS}]}}")
    assert len(designs) == 3
    points = compared(designs)
    assert all(point.holds for point in points), points


def test_memory_expansion_moves_the_best_degree_down() -> None:
    degrees = simulate_designs("comet", "grid={workload.parallel.tensor:[8,32]}")
    assert ("none", "8") not in degrees  # it does not fit
    grid = "{workload.parallel.tensor:[8],memory.bandwidth:[2 TB/s],memory.capacity:[250 GB]}"
    expansion = simulate_designs("comet_expansion", f"grid={grid}")
    points = [*comet.expanded(degrees, expansion), *comet.footprints(degrees, degrees)]
    assert all(point.holds for point in points), points


def test_time_is_u_shaped_on_one_switch() -> None:
    grid = "grid={topology:[flat_1024],workload.parallel.tensor:[1,4,16]}"
    designs = simulate_designs("comet_degrees", grid)
    nodes = {(memory, n, "hgx_a100"): result for (memory, n, _), result in designs.items()}
    assert comet.u_shape(designs | nodes).holds
    right = {key: result for key, result in (designs | nodes).items() if key[1] != "1"}
    assert not comet.u_shape(right).holds


def test_a_cluster_counts_at_its_best_degree() -> None:
    grid = "{npu:[peak_a100,peak_tpu_v4],topology:[hgx_a100],workload.parallel.tensor:[32,64]}"
    best = comet.best_of(simulate_designs("comet_clusters", f"grid={grid}"))
    assert [(each.name, each.degree) for each in best] == [
        ("a100 on hgx_a100", "32"),
        ("a100 on hgx_a100 + expansion", "32"),
        ("tpu_v4 on hgx_a100 + expansion", "32"),  # alone it has room for neither
    ]


def test_faster_npus_hide_less() -> None:
    grid = "grid={workload:[resnet50],npu.flops:[16 TFLOP/s,512 TFLOP/s]}"
    designs = simulate_designs(compute_capability.STUDY, grid)
    (point,) = compute_capability.points(designs)
    assert point.holds, point
    (slower,) = compute_capability.points(dict(reversed(designs.items())))
    assert not slower.holds
