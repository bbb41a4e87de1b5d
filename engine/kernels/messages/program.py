"""Programs with one class per rank for message fidelity, their checks, and results of runs.

Messages and packets of a program are counted before ranks are lowered one by one.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.errors import DimsweepError, TooManyError, prefixing_errors
from dimsweep.engine.kernels.carriers import CARRIERS
from dimsweep.engine.kernels.carriers import Traffic as Traffic
from dimsweep.engine.kernels.phase.batch import Measures, explain_stuck, outcome_error, try_one
from dimsweep.engine.kernels.phase.phase_time import round_half_up
from dimsweep.engine.kernels.phase.state import FINISHED, TOO_LONG
from dimsweep.engine.kinds import CollectiveKind, Fidelity
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.program import NO_STEPS, Program
from dimsweep.engine.network.degrade import degrade_network
from dimsweep.engine.network.fabric import build_network, fit_fabrics, is_product
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.interconnect import InterconnectPlan
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.topology.coordinates import members_along
from dimsweep.engine.units import PICOSECONDS, format_bytes
from dimsweep.engine.workload.graph import Workload


class Span(NamedTuple):
    """An interval in which a message held a link (ps), and the name of its operator."""

    start: int
    end: int
    name: str


class LinkAccount(NamedTuple):
    """The traffic of one link in a run.

    ``busy`` is the ps in which messages held it.  ``utilisation`` is the bytes divided by what its
    bandwidth could have carried in the whole run.  ``longest_queue`` is the maximum number of
    messages that waited for the link at once or, where messages share links, were on it next to
    another.
    """

    link: Link
    n_bytes: float
    busy: int
    utilisation: float
    longest_queue: int
    spans: tuple[Span, ...]  # empty unless recorded

    @classmethod
    def from_totals(
        cls, end: int, link: Link, n_bytes: float, busy: int, longest: int, spans: Iterable[Span]
    ) -> "LinkAccount":
        """Return the account of a link from its totals at the run's end ``end`` (ps)."""
        used = n_bytes / (link.bandwidth * end / PICOSECONDS) if end else 0.0
        return cls(link, n_bytes, busy, used, longest, tuple(spans))


def round_ps(picoseconds: float) -> int:
    """Round a duration to whole picoseconds, as all kernels do."""
    return int(round_half_up(picoseconds))


class OperatorSpan(NamedTuple):
    """The interval in which a node (operator) of the program ran (ps)."""

    start: int
    end: int


class PhaseSpan(NamedTuple):
    """An interval in which a rank's port was busy with a phase (ps)."""

    rank: int
    dim: int
    start: int
    end: int
    name: str


@dataclasses.dataclass(frozen=True)
class MessageRun:
    """The result of simulating a program at one point, message by message.

    The classes of ``program`` are its ranks.
    """

    program: Program
    network: Network
    measures: Measures
    links: tuple[LinkAccount, ...]
    operators: tuple[OperatorSpan, ...]
    phases: tuple[PhaseSpan, ...]
    n_messages: int
    plan: InterconnectPlan | None  # of ranks and groups on an interconnect
    traffic: Traffic | None  # of messages that were carried as flows or packets
    recorded: bool
    n_simulated: int | None = None  # ranks, if others are alike; None: all


def measures_by_rank(**of_rank: NDArray[Any]) -> Measures:
    """Return the measures of one finished point, with one value per rank in each column."""
    return Measures(
        outcome=np.array([FINISHED], dtype=np.int32),
        time=of_rank["end"].max(keepdims=True),
        path=None,
        **{name: column[None] for name, column in of_rank.items()},
    )


def stuck_error(
    program: Program, states: Sequence[int], runs: Mapping[int, int], blocked: Sequence[str]
) -> DimsweepError:
    """Return the error of a run that cannot finish (a deadlock).

    ``blocked`` names the links that are blocked for ever, each with the message that it holds; if
    none are blocked, see :func:`explain_stuck`.
    """
    if not blocked:
        return explain_stuck(program, states, runs)
    more = f"\n  ... and {len(blocked) - 8} more links" if len(blocked) > 8 else ""
    return DimsweepError(
        "deadlock: buffers are full in a circle; these links are blocked\n  "
        + "\n  ".join(blocked[:8])
        + more,
        where="network.buffer",
        code="stalled",
        hint="use larger buffers, no limit, or another routing",
    )


def too_long_error() -> DimsweepError:
    """Return the error of a run whose simulated time exceeds the supported range."""
    return outcome_error(TOO_LONG)


def reducing_error() -> DimsweepError:
    """Return the error for a reduction in switches under fidelity flow or packet."""
    return DimsweepError(
        "flows and packets cannot be reduced by switches",
        where="fidelity",
        code="unsupported",
        hint="fidelity=message, or collective.algorithms=auto on switches that do not reduce",
    )


def check_ranks(program: Program, fidelity: Fidelity) -> None:
    """Raise :class:`DimsweepError` unless every rank is a class and messages can be routed."""
    _check_routing(program, fidelity)
    if program.names.class_first != tuple(range(program.n_npus)):
        raise DimsweepError(
            f"the program has {len(program.names.class_first)} classes of {program.n_npus} ranks; "
            "the message kernel needs one class per rank",
            code="unsupported",
            hint="lower the workload with lower_by_rank, or with lower(..., fold=False)",
        )


def _check_routing(program: Program, fidelity: Fidelity) -> None:
    if fidelity is Fidelity.MESSAGE and program.communication.network.routing is Routing.SPRAY:
        raise DimsweepError(
            "a whole message takes one way, and cannot be spread over several",
            where="network.routing",
            code="conflict",
            hint=f"use fidelity={Fidelity.FLOW} or {Fidelity.PACKET}, or "
            f"network.routing={Routing.ECMP}",
        )


def lower_by_rank(
    workload: Workload, cluster: Cluster, fidelity: Fidelity = Fidelity.MESSAGE
) -> Program:
    """Lower ``workload`` to a program with one class per rank, for the message kernel.

    Raises :class:`DimsweepError` as :func:`engine.lower` does.  Before ranks are lowered one by
    one, it also raises for more messages than ``network.max_messages``, for more packets than
    ``network.max_packets`` (with ``fidelity=packet``), for messages of a collective library, and
    for algorithms that use a whole graph in each of several dimensions.
    """
    alike = lower(workload, cluster)
    if alike.chooser is not None:
        raise DimsweepError(
            "the messages of a collective library are unknown; only their duration is modelled",
            where="fidelity",
            code="unsupported",
            hint="use fidelity=phase, or collective=default, whose messages are known",
        )
    _check_routing(alike, fidelity)
    network = alike.communication.network
    fit_fabrics(alike.communication.topology, network.fabrics)  # or it raises
    links = network_of(alike) if alike.communication.by_network else None
    if links is not None and not links.sizes:
        _check_one_dimension(alike)
    n_messages = count_messages(alike, links)
    check_message_count(n_messages, network)
    if fidelity is Fidelity.PACKET:
        check_packets(alike, n_messages)
    return lower(workload, cluster, fold=False)


def _check_one_dimension(program: Program) -> None:
    """Raise :class:`DimsweepError` for a collective that would use a whole graph twice.

    This is a collective over several dimensions whose algorithms use the links of a graph without
    dimensions.
    """
    s, communication = program.structure, program.communication
    used = sorted(set(zip(s.flows["form"].tolist(), program.names.flow_group, strict=True)))
    for form, group in used:
        record = s.forms[form]
        crossed = s.uses[record["use_start"] : record["use_end"]]["dim"].tolist()
        chosen = [
            communication.algorithms[d].select_algorithm(CollectiveKind(record["kind"]))
            for d in crossed
        ]
        names = [algorithm.name for algorithm in chosen if algorithm.by_network]
        if group and len(names) > 1:
            topology = communication.topology
            raise DimsweepError(
                f"{names[0]!r} uses all links of the graph at once, but {group!r} would go through "
                f"{len(names)} dimensions of {topology.name}, one after the other",
                where="collective.algorithms",
                code="unsupported",
                hint=f"topology.shape='Switch({topology.n_npus})': a single dimension, which "
                "contains groups of any stride",
            )


def network_of(program: Program) -> Network:
    """Return the network that the program runs on, with the program's bandwidths and latencies.

    Links that are down are left out.  Raises :class:`DimsweepError` if a network from a graph has
    another number of NPUs than the topology, the fabrics do not fit the dimensions, or the
    remaining links do not connect all NPUs.
    """
    network, model = _full_network(program), program.communication.network
    with prefixing_errors("network.degrade"):
        return degrade_network(network, model.degrade, model.placement)


def _full_network(program: Program) -> Network:
    """Return the network without degradations: all links at full bandwidth."""
    topology, model = program.communication.topology, program.communication.network
    if model.interconnect is not None:
        model.interconnect.check_ranks(topology.n_npus)
        return model.interconnect.network
    if model.graph is not None:
        model.check_npus(topology.n_npus)
        return model.graph
    dims = tuple(
        dataclasses.replace(dim, bandwidth=float(b), latency=int(latency))
        for dim, b, latency in zip(topology.dims, program.bandwidth, program.latency, strict=True)
    )
    return build_network(dataclasses.replace(topology, dims=dims), model.fabrics)


def check_network(program: Program, fidelity: Fidelity) -> None:
    """Raise :class:`DimsweepError` if ``fidelity`` cannot simulate the program's network.

    Phases know dimensions only, so a graph must be a product of them.
    """
    _check_routing(program, fidelity)
    graph = program.communication.network.graph
    if fidelity is Fidelity.PHASE and graph is None:
        return
    network = network_of(program)
    if fidelity is Fidelity.PHASE and not is_product(network, program.communication.topology):
        raise DimsweepError(
            f"the network is not the product of {program.communication.topology.name}, and phases "
            "model dimensions only",
            where="fidelity",
            code="unsupported",
            hint=f"use fidelity={Fidelity.FLOW.value}, which takes any network",
        )
    if fidelity in CARRIERS:
        CARRIERS[fidelity](network, program.communication.network, ())


def links_to_watch(network: Network, names: Collection[str], fidelity: Fidelity) -> list[int]:
    """Return the numbers of the links named in ``names`` (see :meth:`Network.find_links`).

    Raises :class:`DimsweepError` for unknown names, and for links without queues.
    """
    if names and fidelity is not Fidelity.PACKET:
        raise DimsweepError(
            "only packets have queues, marks and pauses to watch",
            where="watch",
            code="conflict",
            hint="set fidelity=packet, or remove watch",
        )
    return network.find_links(names)


_PACKETS_PER_SECOND = 500_000  # packets that are simulated in a second, or fewer on long ways


def count_messages(program: Program, network: Network | None = None) -> int:
    """Return the number of messages of all ranks, before large ones are split to fit buffers.

    Classes may stand for any number of ranks.  Chunks are assumed to visit the dimensions in the
    baseline order.  (Where Themis chooses another, an algorithm may fuse reduce-scatter and
    all-gather in another dimension.)  Algorithms that use individual links need the ``network``.
    """
    s, ranks = program.structure, np.array(program.names.class_count)
    if not len(s.flows):
        return 0
    senders = np.add.reduceat(ranks[s.members["cls"]], s.flows["member_start"])
    sent: Counter[tuple[int, str]] = Counter()
    columns = (s.flows["form"].tolist(), program.names.flow_group, senders.tolist())
    for form, group, n in zip(*columns, strict=True):
        sent[form, group] += n
    groups = program.communication.groups
    return sum(
        n // groups[group].n_members * _count_collective_messages(program, network, form, group)
        if group
        else n
        for (form, group), n in sent.items()
    )


def check_message_count(n_messages: int, model: NetworkModel) -> None:
    """Raise :class:`TooManyError` for more messages than the model allows."""
    if n_messages > model.max_messages:
        raise TooManyError(
            f"{n_messages:,} messages, more than {model.max_messages:,}; at most a few million are "
            "simulated per second",
            where="network.max_messages",
            hint="use fewer chunks, layers or NPUs, larger buffers, or raise the limit",
        )


def check_packets(program: Program, n_messages: int) -> None:
    """Raise :class:`TooManyError` if ranks send more packets than ``network.max_packets``.

    The number of bytes comes from the phase kernel, which is fast; the last packet of a message may
    be shorter than the others.
    """
    model = program.communication.network
    sent = try_one(program).measures.bytes_sent[0].sum(axis=1)
    n_bytes = float(sent @ np.array(program.names.class_count))
    n = int(n_bytes / model.packets.payload) + n_messages
    if n > model.max_packets:
        raise TooManyError(
            f"about {n:,} packets ({format_bytes(n_bytes)} in {n_messages:,} messages), of which "
            f"a few hundred thousand take a second: {n / _PACKETS_PER_SECOND:,.0f} s",
            where="network.max_packets",
            hint="a larger network.packets.payload, fewer layers, NPUs or bytes, fidelity=flow, or "
            "a higher limit",
        )


def _count_collective_messages(
    program: Program, network: Network | None, form: int, name: str
) -> int:
    """Return the number of messages of all members of one collective."""
    s, communication, total = program.structure, program.communication, 0
    sizes = communication.topology.sizes
    record, group = s.forms[form], communication.groups[name]
    uses = s.uses[record["use_start"] : record["use_end"]]
    for i, (d, fused) in enumerate(uses[["dim", "fused"]].tolist()):
        fuses = fused != NO_STEPS and i == len(uses) - 1
        kind_of_all = CollectiveKind(record["kind"])
        halves = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
        for kind in (
            (kind_of_all,) if fuses or kind_of_all is not CollectiveKind.ALL_REDUCE else halves
        ):
            p, circle = group.sizes[d], communication.closes_ring(group, d)
            algorithm = communication.algorithms[d].select_algorithm(kind)
            if network is not None:  # one line of as many that are not quite alike
                algorithm = algorithm.adapt_to_members(
                    network, members_along(group, 0, sizes, d), d
                )
            of_line = algorithm.n_messages(kind, p, circle)
            total += group.n_members // p * of_line
    return total * int(record["chunks"])
