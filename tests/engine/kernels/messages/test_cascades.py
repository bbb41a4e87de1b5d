"""Messages through switches, worked out by hand: both kernels run what is written here."""

import pytest

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.extensions.wafer import FredWafer
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.messages.routes import Launch, Passages

WAFER = FredWafer(2, 2, latency=100, controllers=2)  # two leaves of two NPUs


@pytest.mark.parametrize(
    ("launch", "up", "down", "n_bytes"),
    [
        (Launch(0, 0), 100.0, 10.0, 100.0),  # what a source sends
        (Launch(0, 0, parts=4), 100.0, 10.0, 25.0),  # by four lanes
        (Launch(0, NONE, up=False, copies=1), 100.0, 10.0, 10.0),  # what a target gets
        (Launch(0, 0, copies=2, parts=4), 100.0, 10.0, 5.0),  # shards of their own for two
        (Launch(0, 0, copies=2, parts=4), 10.0, 10.0, 2.5),  # one copy of what is for both
    ],
)
def test_bytes(launch: Launch, up: float, down: float, n_bytes: float) -> None:
    assert launch.n_bytes(up, down) == n_bytes


def test_up_a_tree_of_switches_and_down_again() -> None:
    network = WAFER.network
    plan = WAFER.plan([[tuple(range(4))]], (4,))
    passages = Passages(network, NetworkModel(interconnect=WAFER), plan)
    everybody = tuple(plan.places)
    tree = passages.passage(everybody).tree
    cascade = passages.cascade(everybody, everybody)
    ends = [
        (network.links[link].source, network.links[link].target) for link, *_ in cascade.launches
    ]
    launches = dict(zip(ends, cascade.launches, strict=True))
    n_lanes = sum(map(len, tree.lanes.values()))
    assert len(launches) == len(cascade.launches) == 4 + 4 + 4 * n_lanes  # each link once
    first = cascade.launches[slice(*cascade.first)]
    assert [launch.who for launch in first] == list(everybody)
    for leaf, npus in tree.leaves.items():
        for npu in npus:
            assert launches[npu, leaf].who == launches[leaf, npu].who == npu
            assert cascade.gates[launches[npu, leaf].gate].expected == len(npus)
            assert launches[leaf, npu].gate == NONE
        for lane in tree.lanes[leaf]:
            assert launches[leaf, lane].parts == launches[lane, leaf].parts == tree.n_parts
            assert launches[lane, leaf].copies == launches[tree.top, lane].copies == len(npus)
            assert cascade.gates[launches[lane, tree.top].gate].expected == len(tree.leaves)
            assert cascade.gates[launches[lane, leaf].gate].expected == tree.n_parts
    # From an NPU to its leaf, to the top, and down again to a leaf.
    ways = {tuple(network.links[link].target for link in way[:3]) for way in cascade.ways_up}
    assert ways == {(leaf, lane, tree.top) for leaf in tree.leaves for lane in tree.lanes[leaf]}
    assert all(way[1:3] == way[3:] for way in cascade.ways_up)
