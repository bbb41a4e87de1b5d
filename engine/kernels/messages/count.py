"""How many messages and packets a program sends, counted before ranks are lowered one by one."""

from collections import Counter

import numpy as np

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.errors import TooManyError
from dimsweep.engine.kernels.phase.batch import try_one
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import NO_STEPS, Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.units import format_bytes
from dimsweep.engine.workload.coordinates import members_along

_A_SECOND = 500_000  # packets that are simulated in a second, or fewer on long ways


def count_messages(program: Program, network: Network | None = None) -> int:
    """The messages of all ranks together, before buffers cut any of them into parts; classes may
    stand for any number of ranks.

    Chunks are taken to visit the dimensions in the baseline order.  (Where Themis chooses another,
    an algorithm may fuse reduce-scatter and all-gather in another dimension.)  Algorithms that go
    by links need the ``network``.
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
        n // groups[group].n_members * _of_collective(program, network, form, group) if group else n
        for (form, group), n in sent.items()
    )


def check_number(n_messages: int, model: NetworkModel) -> None:
    """Raise :class:`TooManyError` for more messages than the model allows."""
    if n_messages > model.max_messages:
        raise TooManyError(
            f"{n_messages:,} messages; at a few million a second that takes long",
            where="network.max_messages",
            hint="fewer chunks, layers or NPUs, larger buffers, or a higher limit",
        )


def check_packets(program: Program, n_messages: int) -> None:
    """Raise :class:`TooManyError` if ranks send more packets than ``network.max_packets``.

    The bytes are those of the phase kernel, which is fast; the last packet of a message may be
    shorter than the others.
    """
    model = program.communication.network
    sent = try_one(program).measures.bytes_sent[0].sum(axis=1)
    n_bytes = float(sent @ np.array(program.names.class_count))
    n = int(n_bytes / model.packets.payload) + n_messages
    if n > model.max_packets:
        raise TooManyError(
            f"about {n:,} packets ({format_bytes(n_bytes)} in {n_messages:,} messages), of which "
            f"a few hundred thousand take a second: {n / _A_SECOND:,.0f} s",
            where="network.max_packets",
            hint="a larger network.packets.payload, fewer layers, NPUs or bytes, fidelity=flow, or "
            "a higher limit",
        )


def _of_collective(program: Program, network: Network | None, form: int, name: str) -> int:
    """The messages of all members of one collective."""
    s, communication, total = program.structure, program.communication, 0
    sizes = communication.topology.sizes
    record, group = s.forms[form], communication.groups[name]
    uses = s.uses[record["use_start"] : record["use_end"]]
    for i, (d, fused) in enumerate(uses[["dim", "fused"]].tolist()):
        fuses = fused != NO_STEPS and i == len(uses) - 1
        for kind in _phases(CollectiveKind(record["kind"]), fuses=fuses):
            p, circle = group.sizes[d], communication.circles(group, d)
            algorithm = communication.algorithms[d].of(kind)
            if network is not None:  # one line of as many that are not quite alike
                algorithm = algorithm.among(network, members_along(group, 0, sizes, d), d)
            of_line = algorithm.n_messages(kind, p, circle)
            total += group.n_members // p * of_line
    return total * int(record["chunks"])


def _phases(kind: CollectiveKind, *, fuses: bool) -> tuple[CollectiveKind, ...]:
    """The kinds of a chunk's phases in a dimension."""
    if kind is CollectiveKind.ALL_REDUCE and not fuses:
        return CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
    return (kind,)
