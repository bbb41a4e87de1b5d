"""Design rules: warnings on unusual designs, given before a simulation.

A warning is one line of text that names the key to change.  It stops nothing.
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
    """Return the warnings of all rules about a configuration and its ``program``.

    ``turned`` are the keys that the user varies or sets for this run. If bandwidths are
    ``searched``, the configuration's own are not simulated. :func:`idle_keys`, which costs more, is
    separate.
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
    """Return the rules' warnings about a study's answer, given its configuration and ``program``.

    No split is faster than one that ``is_proven``, whatever the provisioning of its dimensions. A
    report has a separate remark on memory.
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


_KEY = "workload.parallel"


def axis_warnings(composed: ComposedConfig) -> list[str]:
    """Warn of an override of all axes of a plan that leaves other axes, or their order, in place.

    Hydra merges a map into the existing one, which overrides of single keys and files need. But
    the order of axes has a meaning, and an axis that the override omits still takes ranks.
    """
    given, axes = composed.given(_KEY), composed.config.workload.parallel
    if not isinstance(given, Mapping):
        return []
    kept = [axis for axis, degree in axes.items() if axis not in given and degree != 1]
    if not kept and list(given) == [axis for axis in axes if axis in given]:
        return []
    merged = f"{_KEY} is {_format_axes(axes)}: a map is merged into the preset's"
    if not kept:
        return [f"{merged}, which keeps its order of axes"]
    drops = " ".join(f"'~{_KEY}.{axis}'" for axis in kept)
    return [f"{merged}, which keeps {' and '.join(kept)} unless you add {drops}"]


def _format_axes(axes: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{axis}: {degree}" for axis, degree in axes.items()) + "}"


_MATTERS = 0.01  # of the time
_SHARES = "parts of dimensions whose NPUs share links"
_PLAN_KINDS = {
    PlanKind(stages=True, shares=True): f"messages between stages, on {_SHARES}",
    PlanKind(stages=True, shares=False): "messages between stages",
    PlanKind(stages=False, shares=True): f"groups on {_SHARES}",
}


def fidelity_warnings(config: Config, program: Program, *, searched: bool) -> list[str]:
    """Warn if phase and message fidelity differed by more than 1 % on random plans of this kind.

    There is no warning if every message is simulated anyway (see engine.rules.fidelity).
    """
    kind = None if config.by_message or config.recheck.rungs else classify_plan(program)
    if kind is None or max(SEEN[kind].most, -SEEN[kind].least) < _MATTERS:
        return []
    seen = SEEN[kind]
    fix = "recheck.top=3" if searched else "fidelity=message"
    return [
        f"{_PLAN_KINDS[kind]}: for {seen.plans - seen.equal} of {seen.plans} random plans of this "
        "kind with up to 32 NPUs, the time with fidelity=message differed from that with phases by "
        f"{seen.least:+.1%} to {seen.most:+.1%}; {fix} simulates every message of this plan"
    ]


def bucket_warnings(config: Config, program: Program) -> list[str]:
    """Warn if a gradient bucket's hops last longer than its bytes, with several buckets."""
    workload = config.workload
    if not isinstance(workload, Model) or workload.plan.zero == 3:  # ZeRO 3 exchanges blocks
        return []
    found = find_latency_bound_exchange(program)
    if found is None:
        return []
    hops, of_bytes = units.format_time(found.hops), units.format_time(found.bytes)
    one = units.format_bytes(found.n_bytes)
    enough = units.format_bytes(found.n_bytes * found.hops / found.bytes)
    return [
        f"{found.group}: a bucket of {one} spends {hops} on hops and {of_bytes} on bytes; "
        f"plan.bucket={enough} balances them (plan.stack={workload.plan.stack} sets the bucket)"
    ]


def idle_setting_warnings(
    config: Config, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """Warn of settings without an effect on times, and of bandwidth without traffic."""
    found = _collective_warnings(config, program) + _latency_warnings(config, program)
    instead = config.network.links_key
    found += [
        f"{key} has no effect on times: network.{instead} gives the links"
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
    ours = model.library is None and model.timings is None  # a library chooses its chunks
    if ours and not crosses_dimensions(program) and maximum_lone_chunks(program) > 1 and latency:
        found.append(
            "collective.chunks only adds latency: no collective crosses two dimensions, so "
            "chunks have nothing to overlap with; collective.chunks_on_one_dimension=1"
        )
    is_fifo = collective.queue is QueueOrder.FIFO
    if not is_fifo and not config.by_message and not queue_matters(program):
        found.append(
            f"collective.queue={collective.queue} gives the same time as fifo at the "
            "configuration's bandwidths"
        )
    return found


def _latency_warnings(config: Config, program: Program) -> list[str]:
    """Warn of zero latencies, unless the model has none or another part gives them.

    LIBRA's model (profile=libra) has none. Collective libraries and links of a graph have their
    own latencies.
    """
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
        return f"dimension {name} carries no traffic: the search for its bandwidth has no effect"
    if program.prices is None or not program.prices.per_bandwidth[d]:
        return ""
    cost = units.format_money(program.prices.per_bandwidth[d] * program.bandwidth[d])
    return f"dimension {name} carries no traffic, but its bandwidth costs {cost}"


def machine_warnings(composed: ComposedConfig, *, priced: bool) -> list[str]:
    """Warn if the network, the NPU and the prices belong to different machines.

    The file of each names its machines; one without machines suits any. Prices count if the network
    is ``priced``.
    """
    config = composed.config
    machines = {
        "topology": config.topology.machines,
        "npu": config.npu.machines,
        "cost": config.cost.machines,
    }
    pairs = [("topology", "npu")]
    if priced:
        pairs.append(("topology", "cost"))
    if priced and config.cost.npu_price:  # a price list of networks suits any NPU
        pairs.append(("npu", "cost"))
    apart = [pair for pair in pairs if _differ(*pair, machines)]
    wrong = [group for group in machines if any(group in pair for pair in apart)]
    if not wrong:
        return []
    named = ", ".join(
        f"{group}={composed.choices.get(group)} of {' or '.join(machines[group])}"
        for group in wrong
    )
    return [f"parts of different machines: {named}{_suggest_parts(wrong, machines[wrong[0]])}"]


def _differ(one: str, other: str, machines: dict[str, tuple[str, ...]]) -> bool:
    both = machines[one], machines[other]
    return all(both) and not set(both[0]) & set(both[1])


def _suggest_parts(wrong: list[str], machines: Collection[str]) -> str:
    """Return the overrides that choose the components of the first one's machine."""
    for name, parts in _walk_clusters():
        if set(machines) & set(_read_machines("topology", parts["topology"])):
            others = " ".join(f"{group}={parts[group]}" for group in wrong[1:])
            return f"; cluster={name} sets all parts together, {others} only these"
    return ""


def _walk_clusters() -> Iterator[tuple[str, dict[str, str]]]:
    for name in list_groups()[CLUSTER]:
        if parts := read_cluster_parts(find_option(CLUSTER, name)):
            yield name, parts


def _read_machines(group: str, name: str) -> Collection[str]:
    file = find_option(group, name)
    return () if file is None else read_options(file).node.get("machines") or ()


def memory_warnings(config: Config, program: Program) -> list[str]:
    """Warn if PyTorch's cache may reserve more memory than a GPU has.

    This holds for training on GPUs whose kernels were measured: others need not run PyTorch.
    """
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
        f"memory: the plan uses {total} of {has}, but PyTorch's cache may reserve {reserved} "
        "(15 % of it was idle in the mean of eight models); "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True keeps less idle, and a smaller "
        "workload.plan.micro_batch or workload.plan.recompute needs less; npu.headroom=0.15 "
        "refuses such plans"
    ]


def ns3_file_warnings(composed: ComposedConfig) -> list[str]:
    """Warn of lines of ``network.packets.file`` without an effect, and of the keys it replaces."""
    config = composed.config
    file = config.network.packets.file
    if file is None or config.fidelity is not Fidelity.PACKET:
        return []
    read = read_ns3_config(find_file(file))
    keys = {f"network.packets.{name}" for name in read.packets}
    warnings = [
        f"{key} has no effect: {file} sets it" for key in composed.overridden if key in keys
    ]
    if read.ignored:
        warnings.append(f"{file}: these lines are not simulated: {'; '.join(read.ignored)}")
    return warnings


def calibration_warnings(config: Config, program: Program) -> list[str]:
    """Warn if matrix products are computed at the peak rate, which no GPU reaches."""
    if is_measured(program):
        return []
    kinds = {"npu": config.npu}
    kinds |= {f"other_npus[{i}].npu": other.npu for i, other in enumerate(config.other_npus)}
    return [
        f"{key} computes at its peak, {key}.flops, since it has no calibration; give {key}.kernels "
        f"(a measured GPU) or {key}.efficiency (a share of the peak)"
        for key, npu in kinds.items()
        if npu.efficiency == 1
        and not any((npu.kernels, npu.matmul_efficiency, npu.systolic, npu.measured))
    ]


def price_warnings(composed: ComposedConfig, program: Program) -> list[str]:
    """Warn of tiers, switches or parts of the network without a price."""
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
        f"topology.tiers: cost={cost} does not price {', '.join(missing)}, so the cost is unknown; "
        f"it prices {others} (add a price with cost.tiers.{missing[0]}.link=...)"
    ]


def _missing_price_warning(composed: ComposedConfig, missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    more = f", and {len(missing) - 1} more (dimsweep bill shows all)" if len(missing) > 1 else ""
    cost = composed.choices.get("cost")
    return [f"cost={cost}: {missing[0]}{more}; so the cost is unknown"]


def _switch_price_warnings(composed: ComposedConfig, program: Program) -> list[str]:
    """Warn of dimensions with switches in tiers that have prices of links only."""
    tiers, cost = composed.config.cost.tiers, composed.choices.get("cost")
    return [
        f"cost.tiers.{dim.tier} has no price of a switch in cost={cost}, so the switches of "
        f"dimension {name} cost nothing (add a price with cost.tiers.{dim.tier}.switch=...)"
        for name, dim in zip(program.names.dims, program.cluster.topology.dims, strict=True)
        if "switch" in dim.block.parts and dim.size > 1 and tiers[dim.tier].switch is None
    ]


_ENOUGH = 1.1  # ratio that still counts as just enough
_MIN_GAIN = 0.01  # of an iteration: smaller gains give no warning


def provisioning_verdict(provision: float) -> str:
    """Return a verdict, as text, on the bandwidth of the outer one of a pair of dimensions.

    ``provision`` is its bandwidth relative to just enough (see engine.rules.balance).
    """
    if 1 / _ENOUGH <= provision <= _ENOUGH:
        return "just enough"
    return "over-provisioned" if provision > 1 else "under-provisioned"


def provisioning_warnings(program: Program) -> list[str]:
    """Warn, for each group, of the pair of dimensions whose bandwidths match worst.

    A warning needs a gain: more bandwidth of an under-provisioned dimension shortens the iteration,
    or an over-provisioned one could have less without a loss. Themis gives an over-provisioned
    dimension more chunks, so that none counts as such.
    """
    if program.communication.network.graph is not None:
        return []  # the graph gives the links' bandwidths
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
    ratios = simulate_balanced_times(program, pairs).tolist()
    return [
        _provisioning_message(pair, program, times)
        for pair, times in zip(pairs, ratios, strict=True)
        if _is_worth_warning(pair, program, times)
    ]


def _distance(pair: Pair, program: Program) -> float:
    return abs(math.log(pair.provision(program.bandwidth)))


def _is_worth_warning(pair: Pair, program: Program, times: float) -> bool:
    if pair.provision(program.bandwidth) > 1:
        return times < 1 + _MIN_GAIN
    return times < 1 - _MIN_GAIN


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


_WIDEST, _NARROWEST = 10e12, 0.1e9  # bytes/s of an NPU in a dimension, in real products
_LONGEST_HOP = 10**9  # ps
_PORTS = (100, 200, 400, 800, 1600)  # Gb/s in the names of NICs
_BINARY = re.compile(r"[KMGTP]i[Bb]")
_DECIMAL = re.compile(r"[kMGTP][Bb]")
_BITS = re.compile(r"\s*[\d.]+(\s*[kMGTP]i?|\s+)b\s*")


def unit_warnings(config: Config, program: Program, *, searched: bool) -> list[str]:
    """Warn of suspicious units of bandwidths, latencies and sizes.

    If bandwidths are ``searched``, the topology's own are not used.
    """
    found = [] if searched else _bandwidth_warnings(config, program)
    found += _mixed_unit_warnings(config, searched=searched)
    for d, latency in enumerate(program.latency):
        if latency > _LONGEST_HOP:
            found.append(
                f"topology.latency: {units.format_time(int(latency))} per hop in dimension "
                f"{program.names.dims[d]}, more than in any network"
            )
    found += [
        f"{key}: {value} is in bits; bytes are written with a B"
        for key, value in walk_values(config.text["workload"], "workload")
        if isinstance(value, str) and _BITS.fullmatch(value)
    ]
    return found


def _bandwidth_warnings(config: Config, program: Program) -> list[str]:
    found = []
    for d, value in enumerate(program.bandwidth.tolist()):
        start = f"topology.bandwidth: {units.format_bandwidth(value)} per NPU in dimension "
        start += program.names.dims[d]
        if value > _WIDEST:
            found.append(f"{start}, more than any product has")
        elif value < _NARROWEST:
            found.append(f"{start}, less than one Ethernet port of 1 Gb/s")
        elif _looks_like_bits(config, program, d):
            bits = f"{value / 1e9:g} Gb/s"
            found.append(f"{start}: NICs are rated in bits; did you mean {bits}?")
    return found


def _looks_like_bits(config: Config, program: Program, d: int) -> bool:
    """Return whether dimension ``d`` has a number of bytes/s that is common for NICs in bits/s."""
    given, dim = config.topology.bandwidth, program.cluster.topology.dims[d]
    tier = config.cost.tiers.get(dim.tier)
    if not isinstance(given, tuple) or tier is None or tier.nic is None:
        return False
    return "nic" in dim.block.parts and any(given[d].text == f"{n} GB/s" for n in _PORTS)


def _mixed_unit_warnings(config: Config, *, searched: bool) -> list[str]:
    """Warn of bandwidths of one network in both decimal and binary units."""
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
        f"{binary[0][0]}: {binary[0][1]} is a binary unit, {decimal[0][1]} "
        f"({decimal[0][0]}) a decimal one; 1 GiB/s is 7.4 % more than 1 GB/s"
    ]


_NEAR = 1.01


def radix_warnings(config: Config, program: Program) -> list[str]:
    """Warn of leaf switches with more ports than any catalogued switch of their speed."""
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


def routing_warnings(config: Config, program: Program) -> list[str]:
    """Warn of a graph with equally short paths between NPUs and without a routing.

    All messages take the first path, so that parallel cables do not share them evenly.
    """
    network = program.communication.network
    graph = network.graph
    if graph is None or graph.sizes or network.routing is not None or not config.by_message:
        return []
    if not has_equal_paths(graph):
        return []
    return [
        "network.routing=auto takes the first of equally short paths, so that messages share "
        "links while others are free; network.routing=ecmp spreads them by a hash, as switches do, "
        "and network.routing=spray, with fidelity=flow or packet, spreads each over all paths"
    ]


_TIE_EFFECT = 0.01  # of the time


def tie_warnings(config: Config, program: Program) -> list[str]:
    """Warn if the time under Themis depends on how ties are broken (see engine.rules.fidelity)."""
    found = None if config.by_message else measure_ties(program)
    if found is None or max(found) / min(found) - 1 < _TIE_EFFECT:
        return []
    own, *others = map(units.format_time, found)
    untied = " or ".join(dict.fromkeys(others))
    return [
        f"collective.order=themis ties at these bandwidths: the time is {own}, and {untied} if "
        "they differ in the ninth digit; more collective.chunks reduce the effect"
    ]
