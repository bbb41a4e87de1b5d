"""Doors of configurations, studies, plug-ins, overrides, and of what Python gives."""

import json
from pathlib import Path

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.catalogue import load_catalogue
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.plugins import unload_plugins
from dimsweep.sweeper.questions.plan import plan_study
from tests.faults.doors.door import Files, command, door
from tests.faults.doors.formats import ON_A_RING
from tests.support.studies import TINY

ROOT = Path(__file__).parents[3]
STUDY = """\
# What is asked?
defaults:
  - override /workload: gpt3_libra
  - override /topology: libra_4d
  - override /npu: a100_234
  - override /cost: libra_4d
  - override /search: random
  - override /profile: native
  - _self_
name: asked
workload:
  layers: 1
  parallel: {tensor: 4, data: rest}
topology:
  shape: Ring(4)_Switch(2)
  latency: 500 ns
  tiers: [chiplet, package]
collective: {chunks: 2}
space:
  bandwidth: {total: 200 GB/s, min: 1 GB/s, step: 1 GB/s, constraints: [b0 >= b1, b1 <= 90 GB/s]}
  parameters:
    collective.chunks: {low: 1, high: 8, log: true}
grid:
  workload.layers: [1, 2]
roles: {workload.layers: scenario}
budget: {trials: 6}
objective: [time, cost]
what_if: null
"""
NETWORKS = """\
defaults:
  - override /workload: gpt3_13b
  - override /topology: dgx_h100
  - override /npu: h100
  - override /cost: dgx_h100
  - _self_
name: which
workload:
  model: {layers: 2, hidden: 256, heads: 4, sequence: 128, vocabulary: 512}
  plan: {batch: 8}
collective: {chunks: 1}
objective: time
space:
  network:
    npus: {at_least: 4, at_most: 8}
    tiers:
      - {blocks: [Ring, Switch], sizes: [2, 4], bandwidth: [50 GB/s, 100 GB/s], latency: 1 us,
         radix: 4, price: package}
      - {blocks: [Switch], sizes: [2], bandwidth: [25 GB/s], algorithms: [ring, direct], price: pod}
    memory: [{size: 80 GB, price: 20 kUSD}, {size: 141 GB, price: 30 kUSD}]
    racks: {at_most: 2, npus: 4}
    generators: [{kind: zcube, n: [2, 3], k: 2, bandwidth: 25 GB/s}]
  plan: {tensor: [1, 2], pipeline: [1, 2], micro_batch: [1]}
budget: {gap: 0.01, trials: 8}
what_if: null
"""
NPU = """\
defaults: [h100, _self_]
machines: [H100]
flops: {fp16: 989 TFLOP/s, bf16: 989 TFLOP/s}
memory_bandwidth: 3350 GB/s
memory_efficiency: 0.8
efficiency: 0.6
launch: 12 us
memory: 79.1 GiB
sources:
  flops: h100_sheet (without sparsity)
  memory_bandwidth: h100_sheet
"""
OVERRIDES = """\
workload=gpt3_libra
topology.shape=Ring(4)_Switch(2)
topology.bandwidth=[100 GB/s,50 GB/s]
topology.latency=500 ns
topology.tiers=[]
workload.layers=1
workload.parallel={tensor: 4, data: rest}
collective.chunks=2
npu.launch=5 us
cost=none
network.degrade=[{npu: 7, speed: 90 %}]
fidelity=phase
"""
PLUGIN = (ROOT / "examples" / "plugins" / "nvme.py").read_bytes()


def _words(name: str) -> list[str]:
    return Path(name).read_text("utf-8", "surrogateescape").splitlines()


@door("simulate OVERRIDES", "OVERRIDES", good=lambda: {"overrides.txt": OVERRIDES.encode()})
def overrides_of_a_command() -> None:
    command("simulate", *_words("overrides.txt"), "--json")


AXES = """\
workload.layers=1,2
workload.parallel={tensor: 4, data: rest}
topology.shape=Ring(4)_Switch(2),Ring(2)_Switch(4)
topology.latency=500 ns
topology.tiers=[]
space.bandwidth.total=100 GB/s,200 GB/s
collective.chunks=int(interval(1,4))
budget.trials=6
"""


@door("sweep OVERRIDES", good=lambda: {"axes.txt": AXES.encode()})
def axes_of_a_command() -> None:
    words = ("study=libra_gpt3_4d", "profile=native", "search=random", "what_if=null")
    plan_study(compose([*words, *_words("axes.txt")], may_sweep=True))


@door(good=lambda: {"asked.yaml": STUDY.encode()})
def a_study() -> None:
    plan_study(compose(["study=asked.yaml"], may_sweep=True))


@door(good=lambda: {"which.yaml": NETWORKS.encode()})
def a_study_of_networks() -> None:
    plan_study(compose(["study=which.yaml"], may_sweep=True))


@door(
    *("simulate --config-dir", "sweep --config-dir", "bill --config-dir"),
    good=lambda: {"own/npu/mine.yaml": NPU.encode()},
)
def an_option_of_a_group() -> None:
    words = [word for word in OVERRIDES.splitlines() if not word.startswith("npu")]
    command("simulate", "npu=mine", "--config-dir", "own", *words)


PRICES = """\
parts:
  qm9700: {price: {value: 36 kUSD, date: "2024-08", source: a quotation, level: V}}
  mine:
    kind: nic
    ports: 1
    bandwidth: 400 Gb/s
    splits: 2
    price: {value: 900 USD, date: 2024, source: another, level: A}
    watts: {value: 50 W, date: "2024", source: its sheet, level: N}
  wire: {kind: cable, medium: copper, price: {value: 50 USD, date: "2025", source: x, level: S}}
  box: {kind: npu, ports: 8, price: {value: 310 kUSD, date: "2024-08", source: x, level: V}}
tiers:
  package: {medium: board}
  pod: {medium: copper, length: 2 m}
lifetime: 4 year
power: {pue: 1.3}
"""


@door(good=lambda: {"conf/cost/mine.yaml": PRICES.encode()})
def a_price_list() -> None:
    command("bill", "dgx_h100", "nodes=2", "cost=mine")


@door(good=lambda: {"conf/cost/mine.yaml": PRICES.encode()})
def a_price_list_is_shown() -> None:
    command("show", "cost/mine", "--sources")


PARTS = """\
links: {port: {what: port, parts: [{name: 400G, bandwidth: 400 Gb/s, source: a sheet}]}}
parts:
  qm9700: {kind: switch, title: QM9700, ports: 64, bandwidth: 400 Gb/s, splits: 2, source: a sheet}
  box: {kind: npu, ports: 8, source: another}
"""


@door(good=lambda: {"conf/parts.yaml": PARTS.encode()})
def a_catalogue_of_parts() -> None:
    load_catalogue.cache_clear()
    try:
        load_catalogue()
    finally:
        load_catalogue.cache_clear()


@door("show SHOWN", good=lambda: {"conf/npu/mine.yaml": NPU.encode()})
def a_preset_is_shown() -> None:
    command("show", "npu/mine", "--sources")


@door("check-plugin PLUGINS", "plugins", good=lambda: {"mine.py": PLUGIN})
def a_plug_in() -> None:
    try:
        command("show", "plugins=[mine.py]")
    finally:
        unload_plugins()


@door(good=lambda: {"names.txt": b"json"})
def a_module_as_a_plug_in() -> None:
    """Python's own registers nothing, which is said: it was found, and read."""
    (name, *_) = (*_words("names.txt"), "")
    try:
        command("show", f"plugins=[{name}]")
    except DimsweepError as error:
        if "registers nothing" not in str(error):
            raise
    finally:
        unload_plugins()


WORDS = """\
dimsweep sweep study=libra
dimsweep simulate workload=gpt3_175b cluster=dgx_h100 nodes=16 npu.
dimsweep show npu/h
dimsweep trace lint
"""


@door("complete-words LINE", good=lambda: {"words.txt": WORDS.encode()})
def words_to_complete() -> None:
    for line in _words("words.txt"):
        command("complete-words", line)


@door(
    *(
        "new NAME",
        "list GROUPS",
        "simulate --package",
        "sweep --package",
        "bill --package",
        "trace write --keys",
    ),
    good=lambda: {"names.txt": b"mine\nworkload\nnpu\nworkload.layers"},
)
def names_on_the_command_line() -> None:
    name, group, package, keys = (*_words("names.txt"), "", "", "", "")[:4]
    command("new", name)
    command("list", group)
    command("simulate", "--cfg", "job", "--package", package)
    small = ("study=libra_gpt3_4d", "workload.layers=1", *ON_A_RING)
    command("trace", "write", "w", "--keys", keys, *small)


# --- Python --------------------------------------------------------------------------------------


def _keys() -> Files:
    keys = {
        "workload": "gpt3_libra",
        "workload.layers": 1,
        "workload.parallel": {"tensor": 4, "data": "rest"},
        "topology.shape": "Ring(4)_Switch(2)",
        "topology.latency": "500 ns",
        "topology.tiers": [],
        "topology.bandwidth": ["100 GB/s", "50 GB/s"],
        "collective.chunks": 2,
        "cost": "none",
    }
    return {"keys.plain": json.dumps(keys).encode()}


@door(good=_keys)
def keys_of_a_simulation_from_Python() -> float:  # noqa: N802
    return dimsweep.simulate(**json.loads(Path("keys.plain").read_text())).time


def _designs() -> Files:
    return {"designs.plain": b'[{"bandwidth": ["120 GB/s", 8e10]}, {"split_0": 0.25}]'}


@door(good=_designs)
def designs_of_a_searcher() -> None:
    study = dimsweep.Study.load(TINY[0].partition("=")[2], *TINY[1:], "executor=inline")
    with study.session("mine") as session:
        session.tell(session.simulate(json.loads(Path("designs.plain").read_text())))
