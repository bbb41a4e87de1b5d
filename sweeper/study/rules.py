"""Design rules: what is odd about a design, told before it is simulated.

A warning is one line of text.  It stops nothing; each says what to change.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dimsweep.engine import Fidelity, Program, QueueOrder, SubgroupBandwidth, units
from dimsweep.engine.formats import read_ns3_config
from dimsweep.engine.network import Clos, has_equal_paths
from dimsweep.engine.rules import (
    SEEN,
    Pair,
    PlanKind,
    classify_plan,
    crosses_dimensions,
    describe_unmeasured,
    find_latency_bound_exchange,
    is_measured,
    list_crossed_pairs,
    list_silent_dimensions,
    maximum_lone_chunks,
    measure_ties,
    queue_matters,
    simulate_balanced_times,
)
from dimsweep.sweeper.config.catalogue import load_catalogue
from dimsweep.sweeper.config.compose import CLUSTER, ComposedConfig, read_cluster_parts
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.part import expand_per_dimension, walk_values
from dimsweep.sweeper.places import find_file, find_option, list_groups


def design_warnings(
    composed: ComposedConfig, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """Return the rules' warnings on a composed configuration, whose program is ``program``.

    ``turned`` are the keys that the user varies or has set for this run; ``searched``: the
    bandwidths of the config are not those that will be simulated. :func:`idle_keys`, which costs
    more, is not among the rules.
    """
    config = composed.config
    found = axis_warnings(composed)
    found += machine_warnings(composed, priced=program.prices is not None)
    found += price_warnings(composed, program)
    found += unit_warnings(config, program, searched=searched)
    found += radix_warnings(config, program)
    found += routing_warnings(config, program)
    found += ns3_file_warnings(composed)
    found += calibration_warnings(config, program)
    found += memory_warnings(config, program)
    found += describe_unmeasured(program)
    found += fidelity_warnings(config, program, searched=searched)
    found += idle_setting_warnings(config, program, turned, searched=searched)
    if searched:
        return found
    found += bucket_warnings(config, program)
    return found + tie_warnings(config, program) + provisioning_warnings(program)


def answer_warnings(config: Config, program: Program, *, is_proven: bool) -> list[str]:
    """Return the rules' warnings on a study's answer, whose program is ``program``.

    No split is faster than one that ``is_proven``, whatever the provisioning of its dimensions.
    A report has a separate remark on memory.
    """
    found = unit_warnings(config, program, searched=False)
    found += radix_warnings(config, program)
    found += routing_warnings(config, program)
    found += calibration_warnings(config, program)
    found += describe_unmeasured(program)
    found += fidelity_warnings(config, program, searched=False)
    found += idle_setting_warnings(config, program, (), searched=False)
    found += bucket_warnings(config, program) + tie_warnings(config, program)
    return found if is_proven else found + provisioning_warnings(program)


def merge_warnings(warnings: Iterable[list[str]]) -> list[str]:
    """Return the warnings of several cells, each once, with the number of its cells."""
    cells = list(warnings)
    texts = dict.fromkeys(text for cell in cells for text in cell)
    counted = {text: sum(text in cell for cell in cells) for text in texts}
    return [
        text if n == len(cells) else f"{text} (in {n} of {len(cells)} cells)"
        for text, n in counted.items()
    ]


# Axes of a parallel plan that a map on the command line leaves as the preset has them.


_KEY = "workload.parallel"


def axis_warnings(composed: ComposedConfig) -> list[str]:
    """Warn of a map of axes that was given as a whole, where the plan has others, or another
    order. Hydra merges a map into the existing one, which overrides of single keys and files rely
    on; but the order of axes has a meaning, and an unnamed axis takes ranks."""
    given, axes = composed.given(_KEY), composed.config.workload.parallel
    if not isinstance(given, Mapping):
        return []
    kept = [axis for axis, degree in axes.items() if axis not in given and degree != 1]
    if not kept and list(given) == [axis for axis in axes if axis in given]:
        return []
    merged = f"{_KEY} is {_format_axes(axes)}: a map is merged into the preset's"
    if not kept:
        return [f"{merged}, whose order of axes stays"]
    drops = " ".join(f"'~{_KEY}.{axis}'" for axis in kept)
    return [f"{merged}, which keeps its {' and '.join(kept)} unless you give {drops}, too"]


def _format_axes(axes: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{axis}: {degree}" for axis, degree in axes.items()) + "}"


# By how much a simulation of every message may give another time (see engine.rules.fidelity).


_MATTERS = 0.01  # of the time
_SHARES = "parts of dimensions whose NPUs share links"
_WHAT = {
    PlanKind(stages=True, shares=True): f"messages between stages, on {_SHARES}",
    PlanKind(stages=True, shares=False): "messages between stages",
    PlanKind(stages=False, shares=True): f"groups on {_SHARES}",
}


def fidelity_warnings(config: Config, program: Program, *, searched: bool) -> list[str]:
    """Warn of the difference between phases and messages on plans of the program's kind, if it was
    more than a percent and not every message is simulated anyway."""
    kind = None if config.by_message or config.recheck.rungs else classify_plan(program)
    if kind is None or max(SEEN[kind].most, -SEEN[kind].least) < _MATTERS:
        return []
    seen = SEEN[kind]
    fix = "recheck.top=3" if searched else "fidelity=message"
    return [
        f"{_WHAT[kind]}: on {seen.plans - seen.equal} of {seen.plans} random plans of this kind "
        "and up to 32 NPUs the time message by message was another than by phases, "
        f"{seen.least:+.1%} to {seen.most:+.1%}; {fix} simulates every message of this one"
    ]


# Gradients that are exchanged in buckets which are too small for the network.


def bucket_warnings(config: Config, program: Program) -> list[str]:
    """Warn if a bucket's hops last longer than its bytes, and there are several buckets."""
    workload = config.workload
    if not isinstance(workload, Model) or workload.plan.zero == 3:  # which exchanges blocks
        return []
    found = find_latency_bound_exchange(program)
    if found is None:
        return []
    hops, of_bytes = units.format_time(found.hops), units.format_time(found.bytes)
    one = units.format_bytes(found.n_bytes)
    enough = units.format_bytes(found.n_bytes * found.hops / found.bytes)
    return [
        f"{found.group}: the hops of a bucket of {one} last {hops}, its bytes {of_bytes}; "
        f"plan.bucket={enough} has as much of both (plan.stack={workload.plan.stack} sets it)"
    ]


# Chunks, queues and latencies that make no difference to the time, and bandwidth for no byte.


def idle_setting_warnings(
    config: Config, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """Warn of settings that change the run but no time, and of bandwidth that carries no bytes."""
    found = _collective_warnings(config, program) + _latency_warnings(config, program)
    instead = config.network.links_key
    found += [
        f"{key} has no effect on times: network.{instead} says what the links are"
        for key in ("topology.bandwidth", "topology.latency")
        if instead and config.by_message and key in turned
    ]
    found += [
        _silent_dimension_warning(d, program, searched=searched)
        for d in list_silent_dimensions(program)
    ]
    return [text for text in found if text]


def _collective_warnings(config: Config, program: Program) -> list[str]:
    collective, found = config.collective, []
    latency = program.latency.any() or program.structure.shape.endpoint_delay
    model = program.cluster.collectives
    ours = model.library is None and model.timings is None  # those have chunks of their own
    if ours and not crosses_dimensions(program) and maximum_lone_chunks(program) > 1 and latency:
        found.append(
            "collective.chunks only adds latency: no collective crosses two dimensions, so "
            "chunks have nothing to overlap with; collective.chunks_on_one_dimension=1"
        )
    is_fifo = collective.queue is QueueOrder.FIFO
    if not is_fifo and not config.by_message and not queue_matters(program):
        found.append(
            f"collective.queue={collective.queue} makes no difference to fifo at the "
            "configuration's own bandwidths"
        )
    return found


def _latency_warnings(config: Config, program: Program) -> list[str]:
    """Yield zero latencies, unless the asked model has them (profile=libra), or a collective
    library or the links of a graph have latencies of their own."""
    zero = np.flatnonzero(program.latency == 0)
    model = program.cluster.collectives
    by_links = config.by_message and program.communication.network.graph is not None
    if by_links or model.library is not None or model.timings is not None:
        return []
    if not len(zero) or config.collective.subgroup_bandwidth is SubgroupBandwidth.FULL:
        return []
    if len(zero) == len(program.latency):
        return ["topology.latency is 0 in every dimension: small messages and chunks cost nothing"]
    names = ", ".join(program.names.dims[d] for d in zero)
    return [f"topology.latency is 0 in dimension {names}, but not in the others"]


def _silent_dimension_warning(d: int, program: Program, *, searched: bool) -> str:
    """Warn of a dimension without traffic, if its bandwidth is searched or paid for."""
    name = program.names.dims[d]
    if searched:
        return f"no byte crosses dimension {name}: its bandwidth is searched for nothing"
    if program.prices is None or not program.prices.per_bandwidth[d]:
        return ""
    cost = units.format_money(program.prices.per_bandwidth[d] * program.bandwidth[d])
    return f"no byte crosses dimension {name}: its bandwidth costs {cost} for nothing"


# Parts of machines that are unlike: one's network, another's chips, a third one's prices.


def machine_warnings(composed: ComposedConfig, *, priced: bool) -> list[str]:
    """Warn if no machine has the network, the NPU and the prices of a configuration, by the
    machines that each part's file names; a part that names none suits any. Prices count where the
    network is ``priced``."""
    config = composed.config
    machines = {
        "topology": config.topology.machines,
        "npu": config.npu.machines,
        "cost": config.cost.machines,
    }
    pairs = [("topology", "npu")]
    if priced:
        pairs.append(("topology", "cost"))
    if priced and config.cost.npu_price:  # a price list of networks says nothing of an NPU
        pairs.append(("npu", "cost"))
    apart = [pair for pair in pairs if _differ(*pair, machines)]
    wrong = [group for group in machines if any(group in pair for pair in apart)]
    if not wrong:
        return []
    named = ", ".join(
        f"{group}={composed.choices.get(group)} of {' or '.join(machines[group])}"
        for group in wrong
    )
    return [f"these parts are of different machines: {named}{_remedy(wrong, machines[wrong[0]])}"]


def _differ(one: str, other: str, machines: dict[str, tuple[str, ...]]) -> bool:
    both = machines[one], machines[other]
    return all(both) and not set(both[0]) & set(both[1])


def _remedy(wrong: list[str], machines: Collection[str]) -> str:
    """Return the keys that would match the parts, for the machine of the first one."""
    for name, parts in _walk_clusters():
        if set(machines) & set(_read_machines("topology", parts["topology"])):
            others = " ".join(f"{group}={parts[group]}" for group in wrong[1:])
            return f"; cluster={name} sets all parts together, {others} these alone"
    return ""


def _walk_clusters() -> Iterator[tuple[str, dict[str, str]]]:
    for name in list_groups()[CLUSTER]:
        if parts := read_cluster_parts(find_option(CLUSTER, name)):
            yield name, parts


def _read_machines(group: str, name: str) -> Collection[str]:
    file = find_option(group, name)
    return () if file is None else read_options(file).node.get("machines") or ()


# Plans that fit a GPU's memory by so little that PyTorch's cache may not find room.


def memory_warnings(config: Config, program: Program) -> list[str]:
    """Warn if the cache may reserve more than a GPU has. This holds for training on GPUs whose
    kernels were measured: others need not run PyTorch."""
    workload, npu, need = config.workload, config.npu, program.workload.footprint
    if not isinstance(workload, Model) or workload.plan.task != "training":
        return []
    if need is None or npu.memory is None or not npu.kernels:
        return []
    own = float(npu.memory)
    if not need.total <= own < need.reserved:
        return []
    total, reserved, has = map(units.format_bytes, (need.total, need.reserved, own))
    return [
        f"memory: {total} of {has} are counted, but PyTorch's cache may reserve {reserved} for "
        "them, which was 15 % idle in the mean of eight models; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True keeps less idle, and a smaller "
        "workload.plan.micro_batch or workload.plan.recompute needs less; npu.headroom=0.15 "
        "refuses such plans"
    ]


# A configuration of ns-3 in ``network.packets.file``: what of it, and beside it, has no effect.


def ns3_file_warnings(composed: ComposedConfig) -> list[str]:
    """Name the lines of the file that are not simulated, and the keys that it replaces."""
    config = composed.config
    file = config.network.packets.file
    if file is None or config.fidelity is not Fidelity.PACKET:
        return []
    read = read_ns3_config(find_file(file))
    keys = {f"network.packets.{name}" for name in read.packets}
    warnings = [
        f"{key} has no effect: {file} gives it" for key in composed.overridden if key in keys
    ]
    if read.ignored:
        warnings.append(f"not simulated, of {file}: {'; '.join(read.ignored)}")
    return warnings


# A GPU of which nothing is known but its peak.


def calibration_warnings(config: Config, program: Program) -> list[str]:
    """Warn if products are computed at the peak, which no GPU reaches."""
    if is_measured(program):
        return []
    kinds = {"npu": config.npu}
    kinds |= {f"other_npus[{i}].npu": other.npu for i, other in enumerate(config.other_npus)}
    return [
        f"{key}.flops is taken for what it reaches, so it computes at its peak: no calibration is "
        f"known; {key}.kernels names a GPU that was measured, {key}.efficiency a share of the peak"
        for key, npu in kinds.items()
        if npu.efficiency == 1
        and not any((npu.kernels, npu.matmul_efficiency, npu.systolic, npu.measured))
    ]


# Tiers, switches and whole parts that nothing prices.


def price_warnings(composed: ComposedConfig, program: Program) -> list[str]:
    """Warn if tiers of the topology, or parts of it, have no price, so that the network has none;
    name the first of them."""
    config, cluster = composed.config, program.cluster
    by_tier = bool(config.cost.tiers and config.topology.tiers)
    if config.cost.parts or (by_tier and (cluster.network.graph is not None or config.other_npus)):
        bill = config.purchase(cluster.topology, cluster.network).bill()
        return _missing_price_warning(composed, bill.missing)
    if program.prices is not None:
        return _switch_price_warnings(composed, program)
    priced = {name for name, price in config.cost.tiers.items() if price.link is not None}
    missing = [name for name in dict.fromkeys(config.topology.tiers) if name not in priced]
    if not missing:
        return []
    cost, others = composed.choices.get("cost"), ", ".join(sorted(priced)) or "no tier"
    return [
        f"topology.tiers: {', '.join(missing)} without a price in cost={cost}, so nothing is said "
        f"about cost; it prices {others} (cost.tiers.{missing[0]}.link=... is a price)"
    ]


def _missing_price_warning(composed: ComposedConfig, missing: Sequence[str]) -> list[str]:
    """Return which part of a bill has no price, and how it gets one."""
    if not missing:
        return []
    more = f", and {len(missing) - 1} more (dimsweep bill shows all)" if len(missing) > 1 else ""
    cost = composed.choices.get("cost")
    return [f"cost={cost}: {missing[0]}{more}; so nothing is said about cost"]


def _switch_price_warnings(composed: ComposedConfig, program: Program) -> list[str]:
    """Return dimensions with switches in tiers that price links alone."""
    tiers, cost = composed.config.cost.tiers, composed.choices.get("cost")
    return [
        f"cost.tiers.{dim.tier} has no price of a switch in cost={cost}, so those of dimension "
        f"{name} cost nothing (cost.tiers.{dim.tier}.switch=... is a price)"
        for name, dim in zip(program.names.dims, program.cluster.topology.dims, strict=True)
        if "switch" in dim.block.parts and dim.size > 1 and tiers[dim.tier].switch is None
    ]


# Dimensions that are not provisioned for one another (see engine.rules.balance).


_ENOUGH = 1.1  # within ten per cent of just enough
_HARDLY = 0.01  # of an iteration: what is worth no more is not told


def provisioning_verdict(provision: float) -> str:
    """Return a verdict on the outer dimension of a pair, from the multiple of just enough that it
    has."""
    if 1 / _ENOUGH <= provision <= _ENOUGH:
        return "just enough"
    return "over-provisioned" if provision > 1 else "under-provisioned"


def provisioning_warnings(program: Program) -> list[str]:
    """Warn, for each group, of the pair of dimensions that is furthest from just enough, if that
    matters: an under-provisioned dimension whose bandwidth would shorten the iteration, or an
    over-provisioned one that could have less at no loss. Under Themis, which gives it chunks of
    its own, no dimension is over-provisioned."""
    if program.communication.network.graph is not None:
        return []  # its links are not as wide as the dimensions say
    worst: dict[str, Pair] = {}
    own_orders = program.structure.shape.order > 0
    for pair in list_crossed_pairs(program):
        provision = pair.provision(program.bandwidth)
        if provisioning_verdict(provision) == "just enough" or (own_orders and provision > 1):
            continue
        known = worst.get(pair.group)
        if known is None or _distance(pair, program) > _distance(known, program):
            worst[pair.group] = pair
    if not worst:
        return []
    pairs = list(worst.values())
    told = zip(pairs, simulate_balanced_times(program, pairs).tolist(), strict=True)
    return [
        _provisioning_message(pair, program, times)
        for pair, times in told
        if _is_worth_warning(pair, program, times)
    ]


def _distance(pair: Pair, program: Program) -> float:
    return abs(math.log(pair.provision(program.bandwidth)))


def _is_worth_warning(pair: Pair, program: Program, times: float) -> bool:
    if pair.provision(program.bandwidth) > 1:
        return times < 1 + _HARDLY
    return times < 1 - _HARDLY


def _provisioning_message(pair: Pair, program: Program, times: float) -> str:
    provision, dims = pair.provision(program.bandwidth), program.names.dims
    enough = units.format_bandwidth(round(pair.enough(program.bandwidth), -5))
    if provision > 1:
        longer = f"{times - 1:.1%} longer" if times > 1.0005 else "no longer"
        return (
            f"{pair.group}: dimension {dims[pair.outer]} is over-provisioned {provision:.3g} times "
            f"for what {dims[pair.inner]} feeds it: with {enough} an iteration would take {longer};"
            " collective.order=themis uses it"
        )
    return (
        f"{pair.group}: dimension {dims[pair.outer]} is under-provisioned {1 / provision:.3g} "
        f"times for {dims[pair.inner]}, in any order of dimensions: with {enough} an iteration "
        f"would take {1 - times:.1%} less"
    )


_WIDEST, _NARROWEST = 10e12, 0.1e9  # bytes/s of an NPU in a dimension that some product has
_LONGEST_HOP = 10**9  # ps
_PORTS = (100, 200, 400, 800, 1600)  # Gb/s, by which ports of NICs are called
_BINARY = re.compile(r"[KMGTP]i[Bb]")
_DECIMAL = re.compile(r"[kMGTP][Bb]")
_BITS = re.compile(r"\s*[\d.]+(\s*[kMGTP]i?|\s+)b\s*")


def unit_warnings(config: Config, program: Program, *, searched: bool) -> list[str]:
    """Warn of suspicious units of bandwidths, latencies and sizes; ``searched``: the topology's
    bandwidths are not used."""
    found = [] if searched else _bandwidth_warnings(config, program)
    found += _mixed_unit_warnings(config, searched=searched)
    for d, latency in enumerate(program.latency):
        if latency > _LONGEST_HOP:
            found.append(
                f"topology.latency: {units.format_time(int(latency))} a hop in dimension "
                f"{program.names.dims[d]}, which is longer than any network's"
            )
    found += [
        f"{key}: {value} is bits; bytes are written with a B"
        for key, value in walk_values(config.text["workload"], "workload")
        if isinstance(value, str) and _BITS.fullmatch(value)
    ]
    return found


def _bandwidth_warnings(config: Config, program: Program) -> list[str]:
    found = []
    for d, value in enumerate(program.bandwidth.tolist()):
        what = f"topology.bandwidth: {units.format_bandwidth(value)} per NPU in dimension "
        what += program.names.dims[d]
        if value > _WIDEST:
            found.append(f"{what}, more than any product has")
        elif value < _NARROWEST:
            found.append(f"{what}, less than one Ethernet port of 1 Gb/s")
        elif _looks_like_bits(config, program, d):
            bits = f"{value / 1e9:g} Gb/s"
            found.append(f"{what}: NICs are called by their bits; is it {bits}?")
    return found


def _looks_like_bits(config: Config, program: Program, d: int) -> bool:
    """Return whether a dimension that is reached through NICs has as many bytes as a NIC
    has bits."""
    given, dim = config.topology.bandwidth, program.cluster.topology.dims[d]
    tier = config.cost.tiers.get(dim.tier)
    if not isinstance(given, tuple) or tier is None or tier.nic is None:
        return False
    return "nic" in dim.block.parts and any(given[d].text == f"{n} GB/s" for n in _PORTS)


def _mixed_unit_warnings(config: Config, *, searched: bool) -> list[str]:
    """Return bandwidths of one network written with 1000s and with 1024s."""
    given = ["topology.bandwidth"]
    if searched:
        given = [f"space.bandwidth.{key}" for key in ("total", "max", "known", "constraints")]
    values = {key: config.value(key) for key in given}
    found = [
        *values.items(),
        *(each for key, value in values.items() for each in walk_values(value, key)),
    ]
    written = [(at, text) for at, text in found if isinstance(text, str)]
    binary = [text for text in written if _BINARY.search(text[1])]
    decimal = [text for text in written if _DECIMAL.search(text[1]) and text not in binary]
    if not binary or not decimal:
        return []
    return [
        f"{binary[0][0]}: {binary[0][1]} counts in 1024s, {decimal[0][1]} "
        f"({decimal[0][0]}) in 1000s; 1 GiB/s is 7.4 % more than 1 GB/s"
    ]


# Switches of a fabric that nobody sells.


_NEAR = 1.01


def radix_warnings(config: Config, program: Program) -> list[str]:
    """Warn of leaf switches with more ports than any switch of the catalogue has at their
    bandwidth."""
    topology, dims = program.cluster.topology, program.names.dims
    found = []
    fabrics = expand_per_dimension(config.network.fabric, len(dims), "fabric")
    for name, dim, fabric in zip(dims, topology.dims, fabrics, strict=True):
        if not isinstance(fabric, Clos):
            continue
        needed = fabric.leaf + fabric.links_up(fabric.leaf)
        least = dim.bandwidth / _NEAR
        fast = [each for each in load_catalogue().switches if (each.bandwidth or 0) >= least]
        most = max(fast, key=lambda each: each.ports, default=None)
        if most is None or most.ports < needed:
            sold = f"the largest is {most.title} with {most.ports}" if most else "none is as fast"
            found.append(
                f"network.fabric: leaf switches of dimension {name} have {needed} ports of "
                f"{units.format_bandwidth(dim.bandwidth)}, and no switch does: {sold}"
            )
    return found


# Ways of a graph that nobody chose, and that all messages share.


def routing_warnings(config: Config, program: Program) -> list[str]:
    """Warn of a graph with several shortest ways between NPUs and no rule to choose: all messages
    take the first one, and a switch's cables do not share them evenly."""
    network = program.communication.network
    graph = network.graph
    if graph is None or graph.sizes or network.routing is not None or not config.by_message:
        return []
    if not has_equal_paths(graph):
        return []
    return [
        "network.routing=auto takes the first of ways that are as short, so that messages share "
        "links while others are free; network.routing=ecmp spreads them by a hash, as switches do, "
        "and fidelity=flow or packet with network.routing=spray each over all of these ways"
    ]


# Quantities that were perhaps meant in another unit.


# Times under Themis that hang on ties (see engine.rules.fidelity).


_HANGS_ON_TIES = 0.01  # of the time


def tie_warnings(config: Config, program: Program) -> list[str]:
    """Warn if the run takes another time where nothing ties."""
    found = None if config.by_message else measure_ties(program)
    if found is None or max(found) / min(found) - 1 < _HANGS_ON_TIES:
        return []
    here, *others = map(units.format_time, found)
    apart = " or ".join(dict.fromkeys(others))
    return [
        f"collective.order=themis ties at these bandwidths: {here}, and {apart} where they differ "
        "in the ninth place; more collective.chunks hang on it less"
    ]
