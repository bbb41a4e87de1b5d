"""The self-check of a collective algorithm."""

from collections.abc import Iterable, Iterator

from dimsweep.engine.collective.algorithms import (
    ALGORITHMS,
    AUTO,
    Algorithm,
    algorithms_of,
    all_to_alls_of,
)
from dimsweep.engine.collective.rounds import MemberRounds, SwitchRounds
from dimsweep.engine.collective.steps import PhaseSteps, Setting
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.testing.agreement import Case, disagreements, groups_of
from dimsweep.engine.testing.by_links import faults_on_links
from dimsweep.engine.testing.findings import told
from dimsweep.engine.testing.messages import faults_of_members, faults_of_switches, sent
from dimsweep.engine.topology.block import Block
from dimsweep.engine.topology.blocks import BLOCKS
from dimsweep.engine.topology.grid import Grid

_SIZES = (2, 3, 4, 5, 8)
_LARGEST = 17  # members: a power of two, its neighbours, and what no power of two divides


def check_algorithm(
    algorithm: Algorithm, blocks: Iterable[Block] = (), sizes: Iterable[int] = _SIZES
) -> None:
    """Hold a registered algorithm against what collectives are and against all fidelities.

    For each kind of collective that it can do, by 2 to 17 members: every message that is sent is
    received, nobody waits for ever, everybody hears of all others, all contributions are added up,
    no fewer bytes are sent than any algorithm needs (Chan et al., "Collective communication:
    theory, practice, and experience", 2007; switches that reduce may halve an all-reduce's), and
    ``steps``, ``rounds`` and ``n_messages`` say the same.  Then all groups of a dimension of each
    of ``sizes`` NPUs run it on each of ``blocks`` (none given: all registered ones that it runs
    on): phases, messages, flows and packets agree on the time.  Members and sizes that the
    algorithm refuses are passed over.

    One that goes by links runs on the wires of each block: its ways are there, and neither messages
    nor flows are faster than the narrowest cut.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    told(_findings(algorithm, tuple(blocks), tuple(sizes)), f"algorithm {algorithm.name}")


def _findings(
    algorithm: Algorithm, blocks: tuple[Block, ...], sizes: tuple[int, ...]
) -> Iterator[str]:
    if ALGORITHMS.get(algorithm.name) != algorithm:
        yield "it is not registered"
        return
    if algorithm.by_network:
        grids = (block for block in BLOCKS.values() if not isinstance(block, Grid))
        yield from faults_on_links(algorithm, blocks or grids, sizes)
        return
    blocks = blocks or tuple(block for block in BLOCKS.values() if _runs_on(algorithm, block))
    if not blocks:
        yield "no registered block runs it; check it together with the plug-in of its block"
    done = False
    for block in blocks:
        for kind in kinds_of(algorithm, block):
            done = True
            yield from plan_faults(algorithm.on(block), block, kind)
            for case in cases(block, sizes, kind, algorithm):
                yield from disagreements(case)
    if blocks and not done:
        yield "there is no kind of collective that it can do"


def _runs_on(algorithm: Algorithm, block: Block) -> bool:
    return algorithm.name in (*algorithms_of(block), *all_to_alls_of(block))


def kinds_of(algorithm: Algorithm, block: Block) -> list[CollectiveKind]:
    """The kinds of collectives that the algorithm is asked for on a block."""
    kinds = []
    if algorithm.name in algorithms_of(block):
        kinds = [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER]
        kinds += [CollectiveKind.ALL_REDUCE] if algorithm.fuses else []
    return kinds + [CollectiveKind.ALL_TO_ALL] * (algorithm.name in all_to_alls_of(block))


def cases(
    block: Block, sizes: Iterable[int], kind: CollectiveKind, algorithm: Algorithm
) -> Iterator[Case]:
    """All groups of dimensions of ``sizes`` NPUs that can run it."""
    all_to_all = kind is CollectiveKind.ALL_TO_ALL
    names = (AUTO, algorithm.name) if all_to_all else (algorithm.name, AUTO)
    for n in sizes:
        for p, stride in groups_of(n):
            on, setting = algorithm.on(block), Setting(block, n, p, stride)
            if _steps(on, kind, setting) is not None and _rounds(on, kind, setting) is not None:
                yield Case(block, n, p, stride, kind, *names)


def plan_faults(algorithm: Algorithm, block: Block, kind: CollectiveKind) -> Iterator[str]:
    """What is wrong with the messages of groups that fill a block, and of groups that do not."""
    contradicts = ""
    for setting in _settings(block):
        p, steps = setting.p, _steps(algorithm, kind, setting)
        if steps is None:
            continue
        rounds = _rounds(algorithm, kind, setting)
        if rounds is None:
            contradicts = contradicts or f"{kind} of {p}: steps() accepts it, rounds() refuses it"
        else:
            faults = _faults(algorithm, kind, setting, steps, rounds)
            yield from (f"{kind} of {p}: {fault}" for fault in faults)
    if contradicts:
        yield contradicts


def _settings(block: Block) -> Iterator[Setting]:
    if isinstance(block, Grid):  # which has one size
        yield from (Setting(block, block.size, *group) for group in groups_of(block.size))
        return
    for p in range(2, _LARGEST + 1):
        yield from (Setting(block, n, p, 1) for n in (p, 2 * p))


def _steps(algorithm: Algorithm, kind: CollectiveKind, setting: Setting) -> PhaseSteps | None:
    """None for a number of members that the algorithm refuses."""
    try:
        return algorithm.steps(kind, setting)
    except DimsweepError:
        return None


def _rounds(
    algorithm: Algorithm, kind: CollectiveKind, setting: Setting
) -> MemberRounds | SwitchRounds | None:
    """None for a number of members that the algorithm refuses."""
    try:
        return algorithm.rounds(kind, setting.p, _circle(setting))
    except DimsweepError:
        return None


def _circle(setting: Setting) -> bool:
    return setting.block.circles(setting.n, setting.p, setting.stride)


def _faults(
    algorithm: Algorithm,
    kind: CollectiveKind,
    setting: Setting,
    steps: PhaseSteps,
    rounds: MemberRounds | SwitchRounds,
) -> Iterator[str]:
    p = setting.p
    if not isinstance(rounds, MemberRounds):
        yield from faults_of_switches(rounds, p)
        n_sent = sum(len(each.sources) + len(each.targets) for each in rounds.rounds)
    else:
        yield from faults_of_members(rounds, kind)
        messages = [message for _, _, message in sent(rounds.strands)]
        n_sent, n_bytes = len(messages), sum(message.fraction for message in messages) / p
        # Steps count the bytes that members relay, too, which need not be messages of theirs.
        relays = kind is CollectiveKind.ALL_TO_ALL and steps.bytes_sent > n_bytes
        if abs(steps.bytes_sent - n_bytes) > 1e-9 * p and not relays:
            said_bytes = f"{steps.bytes_sent:g} by steps"
            yield f"a member sends {n_bytes:g} times what it holds, and {said_bytes}"
        if n_bytes < (least := _LEAST[kind](p)) * (1 - 1e-9):
            yield f"a member sends {n_bytes:g} times what it holds, where {least:g} are needed"
    if n_sent != (said := algorithm.n_messages(kind, p, _circle(setting))):
        yield f"{n_sent} messages, and {said} by n_messages"


# The least that a member must send in the mean, over what it holds on entering.
_LEAST = {
    CollectiveKind.REDUCE_SCATTER: lambda p: (p - 1) / p,
    CollectiveKind.ALL_GATHER: lambda p: p - 1,
    CollectiveKind.ALL_TO_ALL: lambda p: (p - 1) / p,
    CollectiveKind.ALL_REDUCE: lambda p: 2 * (p - 1) / p,
}
