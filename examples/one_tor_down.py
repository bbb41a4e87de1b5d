"""What does it cost a training run that one switch fails, and which network minds it least?

GPT-3 175B on H100 servers of eight, on three networks of 400 Gb/s a GPU, whole and with one of the
switches that GPUs hang on ("ToRs") down, drawn by lot:

- roft: a rail-optimised fat tree, in which a GPU has one card, on a ToR of its rail;
- hpn: two planes, so that a GPU has ports of 200 Gb/s to two ToRs;
- zcube: ports of 200 Gb/s to switches of two levels.

Without its ToR a GPU of a rail-optimised network is reached over NVLink and the card of a
neighbour, as NCCL's PXN does; on the others it has its other port.  The plan is the publication's
(Yan et al., From ATOP to ZCube, SIGCOMM 2025, table 8): 64 GPUs a replica, 24 micro-batches, three
interleaved stages.  Messages are spread over all ways that are as short, both ports of a GPU
included, as sprayed packets are.

    python examples/one_tor_down.py
    python examples/one_tor_down.py 4096

prints 256 GPUs, or 4,096, of which each of the six runs takes 6 minutes of a processor and 10 GB.
What comes out, and why it is other than what was published, is on docs/networks.md.
"""

import math
import sys
from pathlib import Path

import networkx as nx

import dimsweep
from dimsweep.engine.network import Network, write_network
from dimsweep.engine.network.generators import Generator, Hpn, Roft, ZCube

SERVER = 8
WHOLE: list[dict[str, object]] = []
ONE_TOR_DOWN = [{"switch": {"named": "ToR *", "draw": 1, "seed": 1}, "down": True}]
COMMON = {
    "workload": "gpt3_175b",
    "npu": "h100",
    "fidelity": "flow",
    "topology.tiers": [],
    "topology.bandwidth": ["450 GB/s", "50 GB/s"],
    "topology.latency": ["1 us", "5 us"],
    "network.routing": "spray",
    "network.max_messages": 10**9,
    "collective.chunks": 1,
    "collective.algorithms": ["auto", "rabenseifner"],
    "search": "grid",
}


def networks_of(gpus: int) -> dict[str, Generator]:
    """The three networks of as many GPUs, a square number, sized as the publication's table 7."""
    side = math.isqrt(gpus)
    each: dict[str, int] = {"server": SERVER, "latency": 5_000_000}
    return {
        "roft": Roft(npus=gpus, radix=side, **each),
        "hpn": Hpn(npus=gpus, radix=2 * side, bandwidth=25e9, **each),
        "zcube": ZCube(n=side, k=2, bandwidth=25e9, **each),
    }


def written(network: Network, name: str) -> str:
    """The file of a network in which a switch that NPUs hang on is called a ToR, and each of their
    ports is a card's: so NVLink is nearer than a ToR that two GPUs of a server share."""
    graph = network.graph.copy()
    tors = dict[str, str]()
    for npu, switch, link in [*network.graph.edges(data=True)]:
        if not isinstance(npu, int) or switch.startswith("NVSwitch"):
            continue
        tors[switch], card = f"ToR {switch}", f"card of {npu} at {switch}"
        graph.add_node(card, kind="nic")
        for one, other in ((npu, switch), (switch, npu)):
            graph.remove_edge(one, other)
            graph.add_edge(one, card, **(link | {"latency": 0} if one == npu else link))
            graph.add_edge(card, other, **(link | {"latency": 0} if other == npu else link))
    file = Path(f"{name}.json").resolve()
    write_network(Network(nx.relabel_nodes(graph, tors)), file)
    return str(file)


def main(
    gpus: int = 256, batch: int | None = None, interleave: int = 3, executor: str = "local"
) -> dimsweep.Study:
    """All three networks, whole and with a ToR down; prints how much slower they are then.

    Of ``gpus`` 64 are a replica of the model, each with 24 micro-batches unless ``batch`` says so.
    """
    networks = {name: generator.build() for name, generator in networks_of(gpus).items()}
    files = [written(network, name) for name, network in networks.items()]
    study = dimsweep.Study(
        {
            **COMMON,
            "name": f"one_tor_down_of_{gpus}_gpus",
            "topology.shape": f"Switch({SERVER})_Switch({gpus // SERVER})",
            "workload.plan.batch": batch or gpus // 64 * 24,
            "workload.plan.interleave": interleave,
            "grid": {"network.file": files, "network.degrade": [WHOLE, ONE_TOR_DOWN]},
            "executor": executor,
        }
    ).run()
    times = study.cells["time_s"].tolist()
    for name, whole, broken in zip(networks, times[::2], times[1::2], strict=True):
        print(f"{name}: {whole:.4f} s, with a ToR down {broken:.4f} s, {broken / whole - 1:+.1%}")
    study.write_page()
    return study


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
