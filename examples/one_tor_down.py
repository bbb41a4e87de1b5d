"""What does it cost a training run that one switch fails, and which network minds it least?

GPT-3 175B on H100 servers of eight, on three networks of 400 Gb/s a GPU, whole and with one of the
switches that GPUs hang on ("ToRs") down, drawn by lot:

- roft: a rail-optimised fat tree, in which a GPU has one card, on a ToR of its rail;
- hpn: two planes, so that a GPU has ports of 200 Gb/s to two ToRs;
- zcube: ports of 200 Gb/s to switches of two levels.

Without its ToR a GPU of a rail-optimised network is reached over NVLink and the card of a
neighbour, as NCCL's PXN does; on the others it has its other port.  Published for 4,096 GPUs (Yan
et al., From ATOP to ZCube, SIGCOMM 2025, flow by flow): 46.9 % slower on ROFT, 9.0 % on HPN, 2.8 %
on ZCube.  Why these figures are others:

- Messages are spread over all ways that are as short, both ports of a GPU included, as sprayed
  packets are.  (Whether the publication's are here, as in its other runs by packets, is not said.)
- What a lost card would have sent goes over those of its server's seven others, a seventh more for
  each, and is exposed only where all rails send at once, as in data parallelism; pipelines and
  tensor parallelism lose little.  How the publication spreads that traffic, and whether cards of
  neighbours may carry it, is not said.  A GPU that loses one of two ports has half its bandwidth,
  which is felt on HPN.
- What share of an iteration is communication decides: micro-batches and GPU times are other ones.

    python examples/one_tor_down.py

prints 256 GPUs: 2.279 s on ROFT and 0.9 % more with a ToR down, 2.279 s and 5.8 % on HPN, 2.339 s
and 0.3 % on ZCube.  With ``fidelity="message"`` and ECMP, by which a message takes one way, these
are 2.433 s and 0.6 %, 2.688 s and 4.6 %, 2.347 s and 0.1 %: collisions hide what is lost.

4,096 GPUs are ``main(Roft(npus=4096, radix=64, ...), Hpn(npus=4096, radix=64, ...),
ZCube(n=64, k=2, ...), batch=512, interleave=1)``, with servers and ports as below.  By messages and
ECMP each of the six runs takes a minute of a processor and 4 to 8 GB: 2.113 s on ROFT and 0.6 %
more with a ToR down, 2.627 s and 0.4 % on HPN, 1.697 s and 0.0 % on ZCube, where collisions make
the all-reduce of gradients (0.84, 1.35 and 0.43 s of it are exposed) many times as long as its cut
bound, 0.05 s.  By flows that are spread, HPN takes 1.500 s and 29.8 % more with a ToR down
(published: 9.0 %), and ROFT 1.495 s whole; each of these runs took two to three minutes of a
processor and 6.5 GB.  What ROFT and ZCube lose so at 4,096 was not run to its end.
"""

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
    "search": "grid",
}
ROFT = Roft(npus=256, radix=16, server=SERVER, latency=5_000_000)
HPN = Hpn(npus=256, radix=16, server=SERVER, bandwidth=25e9, latency=5_000_000)
ZCUBE = ZCube(n=16, k=2, server=SERVER, bandwidth=25e9, latency=5_000_000)


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
    roft: Generator = ROFT,
    hpn: Generator = HPN,
    zcube: Generator = ZCUBE,
    batch: int = 96,
    interleave: int = 3,
    executor: str = "local",
) -> dimsweep.Study:
    """All three networks, whole and with a ToR down; prints how much slower they are then."""
    networks = {each.kind: each.build() for each in (roft, hpn, zcube)}
    (gpus,) = {network.n_npus for network in networks.values()}
    files = [written(network, name) for name, network in networks.items()]
    study = dimsweep.Study(
        {
            **COMMON,
            "name": f"one_tor_down_of_{gpus}_gpus",
            "topology.shape": f"Switch({SERVER})_Switch({gpus // SERVER})",
            "workload.plan.batch": batch,
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
    main()
