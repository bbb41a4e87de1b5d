"""The plug-ins of examples/plugins hold, and are used by their keys."""

import pickle
from pathlib import Path

import networkx as nx
import pytest

from dimsweep.engine import CollectiveKind, DimsweepError, Fidelity, simulate
from dimsweep.engine.cluster.remote_memory import MEMORIES, Request
from dimsweep.engine.collective.algorithms import ALGORITHMS
from dimsweep.engine.collective.rounds import MemberRounds
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.packet.kernel import run as run_packets
from dimsweep.engine.kernels.phase.batch import entrances_of_order
from dimsweep.engine.kernels.phase.kernel import MODEL
from dimsweep.engine.network.generators import GENERATORS
from dimsweep.sweeper import plugins as loading
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import FAMILIES
from dimsweep.sweeper.simulation.program import build_cluster, build_workload
from tests.support.refused import refused

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plugins"
NAMES = ("nvme", "mamba2", "hyperx", "swing", "earliest", "four_cases", "polar_fly")
ONE = ("topology.tiers=[]", "topology.bandwidth=100 GB/s", "topology.latency=1 us")


# In one process, or each would compile the kernels with the same order for itself.
pytestmark = [pytest.mark.usefixtures("forgotten"), pytest.mark.xdist_group("plug-ins")]


def config_of(plugin: str, *words: str) -> Config:
    return compose([f"plugins={EXAMPLES / plugin}.py", *ONE, *words]).config


def time_of(config: Config, fidelity: Fidelity = Fidelity.PHASE) -> float:
    cluster = build_cluster(config)
    return simulate(build_workload(config, cluster), cluster, fidelity=fidelity).time


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_an_example_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-plugin", str(EXAMPLES / f"{name}.py")]) == 0
    assert "holds" in capsys.readouterr().out


def test_what_does_not_hold_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cut too many, a memory that is faster the more is asked for, and an unknown column."""
    text = (EXAMPLES / "hyperx.py").read_text()
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace("return rows + columns - 2", "return rows + columns - 1"))
    assert main(["check-plugin", str(wrong)]) == 1
    told = capsys.readouterr().out
    assert "does not hold" in told and "by links()" in told
    wrong.write_text(
        (EXAMPLES / "nvme.py").read_text().replace("request.n_bytes /", "1e12 / request.n_bytes /")
    )
    assert main(["check-plugin", str(wrong)]) == 1
    assert "a load of more bytes takes less time" in capsys.readouterr().out
    wrong.write_text(
        "from dataclasses import replace\nfrom dimsweep.sweeper.objective import OBJECTIVES, TIME\n"
        "OBJECTIVES['slack'] = replace(TIME, name='slack', column='slack_s')\n"
    )
    assert main(["check-plugin", str(wrong)]) == 1
    assert "rows have no column 'slack_s'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("told", "instead", "says"),
    [
        ("q: int = 3", "q: int", "generator.q: this key needs a value; the check builds"),
        ("npu // self.hosts]", "0]", "switch 0 has 30 cables and 6 ports"),
        ("q + 1 + self.hosts", "id(wires.graph)", "another network from the same parameters"),
    ],
)
def test_a_generator_that_does_not_hold_is_told(
    told: str, instead: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "polar_fly.py").read_text()
    (tmp_path / "wrong.py").write_text(text.replace(told, instead))
    assert main(["check-plugin", str(tmp_path / "wrong.py")]) == 1
    assert says in " ".join(capsys.readouterr().out.split())


def test_a_drive_reads_and_writes_at_rates_of_their_own() -> None:
    config_of("nvme")
    drive = MEMORIES["nvme"](8e9, write_bandwidth=2e9)  # type: ignore[call-arg]
    assert drive.access_time(Request(8e6)) == 10**9
    assert drive.access_time(Request(8e6, store=True)) == 4 * 10**9
    offloads = ("workload=transformer_17b", "topology=dgx_a100", "collective=streamed")
    words = (*offloads, "workload.plan.zero=0", "memory=host", "memory.kind=nvme")
    slow, fast = (
        time_of(
            compose([f"plugins={EXAMPLES}/nvme.py", *words, f"memory.write_bandwidth={w}"]).config
        )
        for w in ("1 GB/s", "4 GB/s")
    )
    assert slow > 2 * fast


def test_a_model_has_the_published_parameters() -> None:
    config_of("mamba2")
    assert FAMILIES["mamba2"]().parameters == pytest.approx(2.7e9, rel=0.01)
    small = FAMILIES["mamba2"](hidden=768, layers=24)
    assert small.parameters == pytest.approx(130e6, rel=0.02)


def test_swing_goes_less_far_than_halving() -> None:
    """Of 16 on a ring of 100 GB/s: both send 15/16 of the bytes twice, over distances of 1, 1, 3
    and 5, where halving's are 8, 4, 2 and 1."""
    config_of("swing")
    rounds = ALGORITHMS["swing"].rounds(CollectiveKind.REDUCE_SCATTER, 16, circle=True)
    assert isinstance(rounds, MemberRounds)
    peers = [[message.peer for message in each.send] for each in rounds.strands[0][0]]
    assert peers == [[1, 15], [15, 1], [3, 13], [11, 5], []]
    words = ("workload=all_reduce", "topology.shape=Ring(16)", "collective.chunks=1")
    swing = config_of("swing", *words, "collective.algorithms=[swing]")
    assert time_of(swing) == pytest.approx(time_of(swing, Fidelity.MESSAGE), rel=1e-4)


def test_hyperx_is_a_dimension_of_a_shape() -> None:
    words = ("workload=all_reduce", "topology.shape=HyperX(16)", "collective.chunks=1")
    config = config_of("hyperx", *words)
    assert time_of(config) == pytest.approx(time_of(config, Fidelity.MESSAGE), rel=1e-6)


def test_switches_of_diameter_two() -> None:
    """57 of them for q = 7, of which 8 are orthogonal to themselves: 8 * 57 - 8 ends of cables."""
    config_of("polar_fly")
    network = GENERATORS["polar_fly"](q=7, hosts=1).build()  # type: ignore[call-arg]
    of_switches = network.graph.subgraph([node for node in network.graph if isinstance(node, str)])
    assert len(of_switches) == 57
    assert len(of_switches.edges) == 8 * 57 - 8
    assert nx.diameter(of_switches) == 2
    with pytest.raises(DimsweepError, match="9 is no prime"):
        GENERATORS["polar_fly"](q=9).build()  # type: ignore[call-arg]


@pytest.mark.long
def test_a_rival_of_themis() -> None:
    """A rival of Themis on the hardware for which Themis was made, with a kernel of its own."""
    name = str(EXAMPLES / "earliest.py")
    times, model = {}, entrances_of_order(MODEL.choose)
    compiled = fingerprint(model.run_points)
    for order in ("baseline", "themis", "earliest"):
        words = ("workload=all_reduce", "topology=themis_3d_homo", f"collective.order={order}")
        times[order] = time_of(compose([f"plugins={name}", *words]).config)
    assert times["themis"] < times["earliest"] < times["baseline"] / 2
    assert fingerprint(model.run_points) == compiled, "other orders are not compiled anew with it"


def test_an_order_is_taken_back_again() -> None:
    words = (f"plugins={EXAMPLES / 'earliest.py'}", "collective.order=earliest")
    order = compose(words).config.collective.order
    assert pickle.loads(pickle.dumps(order)) is order and str(order) == "earliest"
    loading.unload_plugins()
    with refused("collective.order", "unknown-name", "'earliest'", "baseline, themis"):
        compose(["collective.order=earliest"])
    again = compose(words).config.collective.order
    assert again is order, "the same text has the same number: what is compiled stays right"


@pytest.mark.long
def test_a_transport_is_compiled_by_itself() -> None:
    """Its runs are of a type of their own; ours are compiled once, with it or without."""
    words = ("workload=all_reduce", "topology.shape=Switch(4)", "network.packets.payload=64 KiB")

    def signatures(transport: str, *plugin: str) -> int:
        config = compose([*plugin, *ONE, *words, f"network.packets.transport={transport}"]).config
        assert time_of(config, Fidelity.PACKET) > 0
        return len(run_packets.signatures)  # type: ignore[attr-defined]

    plugin = f"plugins={EXAMPLES}/four_cases.py"
    alone = signatures("dctcp")
    assert signatures("dctcp", plugin) == alone
    with_its_own = signatures("four_cases", plugin)
    assert signatures("swift", plugin) == signatures("four_cases", plugin) == with_its_own
