"""The account of one run along its critical path, and of every class of ranks beside it."""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.phase.batch import Measures, Run, entrances_of
from dimsweep.engine.kernels.phase.path import Chain, chain_of, empty_path
from dimsweep.engine.lower.program import Longs, NodeKind, Program, Table

# What computes on a critical path.
COMPUTE, MEMORY, REMOTE, HOST = "compute", "memory", "remote memory", "host"


class Along(NamedTuple):
    """The critical path of one run, in picoseconds that add up to its time exactly: D dimensions, C
    classes of ranks.

    No instant of the path is waiting: while one rank waits, it is with whom that rank waits for.
    """

    compute: dict[str, int]
    """By what bounds it: ``compute``, ``memory`` (kernels that last as long as memory takes),
    ``remote memory`` (accesses), ``host``; those that there are."""
    communication: dict[str, Longs]
    """By kind of collective and group, (D,) each: bytes, latencies, delays and reductions in each
    dimension.  Messages from point to point are their sender's."""
    by_class: Longs
    """(C,) where it leads through: collectives of several classes count for their first one."""


class ClassAccount(NamedTuple):
    """What the ranks of a class do with the time of the iteration, in picoseconds.

    ``compute + communication + waiting + idle`` is that time; ``communication`` and ``waiting`` are
    what no compute hides: with some dimension in use, and with none (accesses to remote memory,
    too).  When nothing at all is under way, or only the host works, the class is ``idle``.
    """

    ranks: int
    first: int  # the lowest rank
    compute: int
    communication: int
    waiting: int
    idle: int
    path: int | None  # what of the critical path leads through it; None where that is not known


def along(run: Run) -> Along | None:
    """The critical path's account; None where a witness simulated what the kernel left open, which
    tells no path."""
    path = run.measures.path
    if path is None or np.isnan(path.demand[0]).any():
        return None
    s, state = run.program.structure, run.state
    chain = chain_of(state)
    # A group of one has no phases, and so the same first record as what follows it.
    chunk = np.searchsorted(state.chunks["record"], chain.phases, side="right") - 1
    first = s.flows["member_start"][state.chunks["flow"][chunk]]
    sender = s.members["node"][first]
    return Along(
        _computing(s.nodes, chain.nodes, state.nodes["end"] - state.nodes["start"]),
        _communicating(run, chain, s.nodes["tally"][sender]),
        _by_class(run, chain, s.nodes["cls"][sender]),
    )


def _computing(nodes: Table, on_path: Longs, lasted: Longs) -> dict[str, int]:
    kind = nodes["kind"][on_path]
    bound = np.where(kind == NodeKind.COMPUTE, nodes["memory"][on_path], 0)
    found = {
        COMPUTE: (lasted[on_path] - bound)[kind == NodeKind.COMPUTE].sum(),
        MEMORY: bound.sum(),
        REMOTE: lasted[on_path][kind == NodeKind.ACCESS].sum(),
        HOST: lasted[on_path][kind == NodeKind.HOST].sum(),
    }
    return {name: int(time) for name, time in found.items() if time or name == COMPUTE}


def _communicating(run: Run, chain: Chain, tally: Longs) -> dict[str, Longs]:
    program = run.program
    tallies = np.unique(tally)
    path = empty_path(program.structure, len(tallies))
    labels = np.searchsorted(tallies, tally).astype(np.int64)
    apart = entrances_of(program).phases_apart
    apart(program.structure, run.times, run.state, chain, labels, path)
    times = path.transfer + path.latency + path.endpoint
    return {program.names.tally[t]: times[i] for i, t in enumerate(tallies.tolist())}


def _by_class(run: Run, chain: Chain, cls: Longs) -> Longs:
    s, state = run.program.structure, run.state
    phases, phase = run.times.phases, state.phase_of[chain.phases]
    # A chunk that ended a flow brings the latencies of all its phases.
    late = np.where(chain.whole, phases["late"][phase], 0)
    found = np.zeros(s.shape.n_classes, dtype=np.int64)
    np.add.at(found, cls, phases["hold"][phase] + late)
    lasted = state.nodes["end"] - state.nodes["start"]
    np.add.at(found, s.nodes["cls"][chain.nodes], lasted[chain.nodes])
    return found


def classes_of(
    program: Program, measures: Measures, path: Along | None
) -> tuple[ClassAccount, ...]:
    """The account of each class of ranks of a run of one point."""
    time, found = int(measures.time[0]), list[ClassAccount]()
    names = zip(program.names.class_count, program.names.class_first, strict=True)
    for cls, (ranks, first) in enumerate(names):
        compute, exposed = int(measures.compute[0, cls]), int(measures.exposed[0, cls])
        waiting = min(round(float(measures.exposed_by_dim[0, cls, -1])), exposed)
        found.append(
            ClassAccount(
                ranks,
                first,
                compute,
                exposed - waiting,
                waiting,
                time - compute - exposed,
                None if path is None else int(path.by_class[cls]),
            )
        )
    return tuple(found)
