"""A plug-in on two Ray nodes: the rows of actors on both are those of this process.

Runs where dimsweep is installed, and a plug-in's package and file beside it.
"""

import time

from ray.cluster_utils import Cluster

import dimsweep

KEYS = ["plugins=[shuffles,hyperx.py]", "workload=shuffle", "topology.shape=HyperX(4)_Switch(4)"]
KEYS += [
    "topology.bandwidth=50 GB/s",
    "topology.latency=1 us",
    "topology.tiers=[]",
    "name=shuffles",
]
KEYS += ["space.parameters={collective.chunks: {low: 1, high: 64}}", "search=grid", "what_if={}"]


def swept(results: str, *executor: str) -> dimsweep.Study:
    return dimsweep.Study({}, *KEYS, f"results={results}", *executor).run()


nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
nodes.add_node(num_cpus=1)
began = time.monotonic()
there = swept("two", "executor=address", f"executor.address={nodes.address}", "executor.actors=2")
print(f"64 trials on two nodes: {time.monotonic() - began:.1f} s")
assert dimsweep.load(there.folder).equals(dimsweep.load(swept("one", "executor=inline").folder))
nodes.shutdown()
