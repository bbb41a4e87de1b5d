"""On which NPUs of a larger network the ranks of a workload run."""

import pytest

from dimsweep.engine.errors import Code
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused

LEVELS = (
    "network.levels=[{switch: leaf, share: 8, bandwidth: 50 GB/s, latency: 500 ns},"
    " {switch: spine, below: leaf, bandwidth: 50 GB/s, latency: 500 ns}]"
)


def config(*told: str, npus: int = 32, fidelity: str = "message") -> Config:
    return compose(
        [
            *("topology.shape=Switch(8)", "topology.tiers=[]", "topology.latency=500 ns"),
            *("workload=all_reduce", "collective.chunks=2", f"fidelity={fidelity}", LEVELS),
            *(f"network.npus={npus}", *told),
        ]
    ).config


@pytest.mark.parametrize(
    ("placement", "npus"),
    [
        ("packed", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("scattered", (0, 4, 8, 12, 16, 20, 24, 28)),
        ("[8-11, 31, 2-3, 0]", (8, 9, 10, 11, 31, 2, 3, 0)),
    ],
)
def test_ranks_are_placed(placement: str, npus: tuple[int, ...]) -> None:
    own = config(f"network.placement={placement}")
    assert build_cluster(own).network.placement == npus
    assert Config.from_plain(own.plain()) == own


def test_scattered_ranks_share_the_links_between_leaves() -> None:
    """Packed ranks are on one leaf, as fast as on a network of their own."""
    times = [
        simulate(config(f"network.placement={where}")).time
        for where in ("packed", "scattered", "[0-1, 8-9, 16-17, 24-25]")
    ]
    assert times[0] == simulate(config(npus=8)).time
    assert times[0] < min(times[1:])


def test_names_are_those_of_the_whole_network() -> None:
    slow, idle = (
        simulate(config("network.placement=[8-15]", f"network.degrade=[{{npu: {npu}, {what}}}]"))
        for npu, what in ((9, "bandwidth: 50 %"), (1, "down: true"))
    )
    assert slow.time > idle.time == simulate(config("network.placement=[8-15]")).time
    cluster = build_cluster(
        config("network.placement=[8-15]", "network.degrade=[{npu: 9, speed: 50 %}]")
    )
    assert cluster.npus.of is not None
    assert cluster.npus.of.tolist() == [1, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("written", "where", "code", "data"),
    [
        ("network.placement=[0-3]", "network.placement", "mismatch", "8"),
        ("network.placement=[25-33]", "network.placement", None, "NPU 32"),
        ("network.placement=[0-6, 3]", "network.placement", None, "NPU 3"),
        ("network.placement=[0-6, x]", "network.placement[1]", "bad-syntax", "'x'"),
        ("network.placement=paked", "network.placement", "unknown-name", "packed, scattered"),
        ("topology.shape=Switch(64) network.placement=packed", "placement", "mismatch", "64 ranks"),
        (
            "network.levels=[] network.npus=null network.placement=packed",
            *("network.placement", "conflict", "network.npus"),
        ),
        ("network.levels=[]", "network.npus", "missing", "network.levels"),
        ("fidelity=phase network.placement=packed", "network.placement", None, ""),
        ("", "network", None, "32 NPUs"),
    ],
)
def test_wrong_placements_are_refused(
    written: str, where: str, code: Code | None, data: str
) -> None:
    words = [word.replace("~", " ") for word in written.replace(", ", ",~").split()]
    with refused(where, code, data):
        simulate(config(*words))


def test_a_placement_folds_and_lowers_as_ever() -> None:
    program = build_program(config("network.placement=packed"))
    assert program.n_npus == 8


@pytest.mark.parametrize("name", ["roft_1024", "hpn_1024", "zcube_1024"])
def test_presets_of_generators_have_as_many_npus_as_they_say(name: str) -> None:
    """All three give a GPU 400 Gb/s, so they are alternatives in a study."""
    told = ["topology.shape=Switch(8)_Switch(128)", "topology.tiers=[]", "topology.latency=1 us"]
    own = compose([f"network={name}", "fidelity=flow", *told]).config
    graph = build_cluster(own).network.graph
    assert graph is not None
    assert graph.n_npus == int(name.rpartition("_")[2])
    ends = [link for link in graph.links if link.source == 9 and "NVSwitch" not in link.name]
    assert sum(link.bandwidth for link in ends) == 50e9


def test_a_spare_takes_the_place_of_an_npu_that_is_down() -> None:
    """On the same leaf nothing changes; on another one all of its bytes go up."""
    down = "network.degrade=[{npu: 5, down: true}]"
    whole, near, far = (
        simulate(config(f"network.placement={where}", *more, "topology.shape=Switch(7)")).time
        for where, more in (
            ("[0-6]", ()),
            ("[0-4, 6-7]", (down,)),
            ("[0-4, 6, 8]", (down,)),
        )
    )
    assert whole == near < far


def test_what_is_left_of_unequal_nodes_is_one_group() -> None:
    """Of leaves with 8, 8 and 3 NPUs; a network of theirs has no product of dimensions."""
    own = config("network.placement=[0-18]", "topology.shape=Switch(19)", npus=24)
    assert simulate(own).program.n_npus == 19
