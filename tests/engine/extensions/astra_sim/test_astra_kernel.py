"""The compiled kernel for ASTRA-sim's runs against plain Python: every time the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Block, CollectiveKind, DimsweepError, Ring
from dimsweep.engine.extensions.astra_sim.algorithms import Exchange, Phase
from dimsweep.engine.extensions.astra_sim.links import Clock, Timers, routes, ways
from dimsweep.engine.extensions.astra_sim.npu import costs_of
from dimsweep.engine.extensions.astra_sim.plans import recipe
from dimsweep.engine.extensions.astra_sim.program import lower
from dimsweep.engine.extensions.astra_sim.workload import interpret
from dimsweep.engine.formats.astra_sim import Inputs, Network, RemoteMemory
from dimsweep.engine.formats.chakra import NodeType, TraceNode
from dimsweep.engine.formats.chakra.node import Node, node_of
from dimsweep.engine.topology import BLOCKS
from tests.support.astra_runs import inputs, pipelines, ring_of_four, traces
from tests.support.examples import examples


def is_compiled(given_inputs: Inputs, given_traces: Sequence[Sequence[Node]]) -> bool:
    """Whether it ran compiled; the times of every kind of ranks, or the error, must be Python's."""
    program = lower(given_inputs, given_traces)
    try:
        expected = interpret(given_inputs, given_traces, program.folding)
    except DimsweepError as error:
        with pytest.raises(DimsweepError) as ours:
            program.run()
        assert str(ours.value) == str(error)
        return False
    result = program.run()
    assert result.of_kind == expected.of_kind
    assert program.run() == result
    return result.compiled


def test_random_collectives_as_in_python() -> None:
    """Of which enough are compiled, and enough are not, for either to be tried."""

    @examples(60)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        given_inputs = data.draw(inputs())
        compiled.append(is_compiled(given_inputs, data.draw(traces(given_inputs))))

    compiled: list[bool] = []
    compare()
    assert len(compiled) / 4 < sum(compiled) < len(compiled) * 3 / 4


@examples(60)
@given(st.data())
def test_random_graphs_with_messages_as_in_python(data: st.DataObject) -> None:
    given_inputs = data.draw(inputs())
    given_inputs = replace(
        given_inputs,
        memory=RemoteMemory("PER_NPU_MEMORY_EXPANSION", 100.0, 50.0),
        system=replace(given_inputs.system, replay_only=data.draw(st.booleans())),
    )
    is_compiled(given_inputs, data.draw(pipelines(given_inputs.network.n_npus)))


class Mirror:
    """A port that gets what it sends."""

    def __init__(self, rank: int, network: Network) -> None:
        self.rank, self.clock, self.ended = rank, Clock(), -1
        self._way, self._timers = ways(network), Timers(self.clock)

    def end(self) -> None:
        self.ended = self.clock.now

    def wait(self, delay: int, call: Callable[[], None]) -> None:
        self._timers.register(delay, call)

    def exchange(
        self, target: int, source: int, n_bytes: int, received: Callable[[], None]
    ) -> None:
        latency, bandwidth = self._way(self.rank, target)
        self.clock.schedule(self.clock.now + int(latency + n_bytes / bandwidth), lambda: received())


@examples(100)
@given(
    st.sampled_from(CollectiveKind),
    st.sampled_from(["ring", "direct", "direct1", "direct2", "direct3", "halvingDoubling"]),
    st.sampled_from(list(BLOCKS.values())),
    st.sampled_from([2, 4, 8]),
    st.integers(8, 10**6),
    st.sampled_from([0.0, 20.0, 500.0]),
    st.sampled_from([1.0, 50.0, 1000.0]),
    st.booleans(),
)
def test_a_recipe_lasts_as_long_as_its_messages_one_by_one(
    kind: CollectiveKind,
    algorithm: str,
    block: Block,
    n: int,
    n_bytes: int,
    latency: float,
    gigabytes: float,
    flat: bool,
) -> None:
    network = Network((block,), (n,), (gigabytes,), (latency,))
    costs = costs_of(ring_of_four(), flat=flat)
    phase = Phase(0, 0, kind, algorithm, n_bytes, n, True)
    found = recipe(phase, range(n), 1, costs, routes(network))
    if found is None:
        assert algorithm.startswith("direct")
        return
    total = sum(
        each.delay
        + each.reduction
        + (
            int(each.message.hops * latency + each.message.n_bytes / network.bandwidth[0])
            if each.message
            else 0
        )
        for each in found
    )
    mirror = Mirror(1, network)
    Exchange(mirror, costs, phase, range(n), done=mirror.end).start()
    mirror.clock.run()
    assert total == mirror.ended


# --- by hand -------------------------------------------------------------------------------------


def collective(number: int, *after: int, size: int = 2**20) -> TraceNode:
    attributes = {"comm_type": 0, "comm_size": size}
    return TraceNode(number, "all-reduce", NodeType.COMM_COLL, after, (), 0, 0, attributes)


def compute(number: int, micros: int, *after: int) -> TraceNode:
    return TraceNode(number, "compute", NodeType.COMP, after, (), 0, micros)


def on_all(*nodes: TraceNode) -> list[list[Node]]:
    return [[node_of(node) for node in nodes]] * 4


# 6 steps of 256 KiB: 4882 + 500 + 10 ns, 10 ns before them, and 3 reductions of 3 * 163 ns.
ALONE = 6 * (4882 + 500 + 10) + 10 + 3 * 3 * 163


def test_a_collective_beside_a_computation() -> None:
    result = lower(ring_of_four(), on_all(collective(0), compute(1, 20), collective(2, 1))).run()
    assert result.compiled
    assert result.cycles == (2 * ALONE,) * 4
    assert result.gpu == (20_000,) * 4
    assert result.communication == (2 * ALONE,) * 4
    assert result.method == "one rank of each kind, phase by phase, compiled"


def test_replayed_communication_is_not_exposed() -> None:
    """ASTRA-sim counts whatever it replays as the GPU's, unless the CPU does it."""
    on_cpu = node_of(compute(2, 3, 1))._replace(on_cpu=True)
    nodes = [[node_of(compute(0, 5)), node_of(collective(1, 0)), on_cpu]] * 4
    program = lower(ring_of_four(replay_only=True), nodes)
    for result in (
        program.run(),
        interpret(program.inputs, nodes, program.folding),
    ):
        assert result.cycles == (5000 + 1 + 3000,) * 4
        assert result.exposed == (3000,) * 4
        assert result.gpu == (5000,) * 4


def test_nodes_that_end_at_once_free_others() -> None:
    nothing = [TraceNode(i, "nothing", NodeType.METADATA, (i - 1,) * (i > 0)) for i in range(3)]
    program = lower(ring_of_four(), on_all(*nothing, collective(3, 2)))
    assert "as soon as they are issued" in program.interpreted
    result = program.run()
    assert result.cycles == (ALONE,) * 4


@pytest.mark.parametrize("splits", [1, 2])
def test_what_ends_at_the_very_tick_of_a_chunk_is_put_in_order_by_its_last_wait(
    splits: int,
) -> None:
    """The computation begins before the chunk's last endpoint delay does, so it ends first; what
    either of them lets start is as if every message had been simulated."""
    given_inputs = ring_of_four()
    given_inputs = replace(given_inputs, system=replace(given_inputs.system, splits=splits))
    end = lower(given_inputs, on_all(collective(0))).run().cycles[0]
    for duration in (end // splits, end // splits - 1, end // splits + 1):
        after = [compute(2, 1, 1), collective(3, 1), collective(4, 0), compute(5, 2, 4)]
        timed = node_of(compute(1, 0))._replace(duration=duration)
        nodes = [[node_of(collective(0)), timed, *map(node_of, after)]] * 4
        program = lower(given_inputs, nodes)
        result = program.run()
        assert result.compiled
        witness = interpret(given_inputs, nodes, program.folding)
        assert result.of_kind == witness.of_kind


@pytest.mark.parametrize("sender", [0, 2])
def test_a_message_that_comes_when_it_begins_to_be_expected(sender: int) -> None:
    """Which is first may matter; the message takes 81 + 500 ns, twice that to the rank opposite."""
    receiver = 2 - sender
    ends = {"comm_src": sender, "comm_dst": receiver, "comm_size": 4096}
    send = node_of(TraceNode(0, "send", NodeType.COMM_SEND, (), (), 0, 0, ends))
    receive = node_of(TraceNode(2, "receive", NodeType.COMM_RECV, (1,), (), 0, 0, ends))
    arrival = 1000 + int(4096 / (50.0 * 2**30 / 1e9))
    for duration, tie in ((arrival, True), (arrival - 1, False), (arrival + 1, False)):
        wait = node_of(compute(1, 0))._replace(duration=duration)
        idle = node_of(compute(0, 0))
        nodes = [[idle]] * 4
        nodes[sender], nodes[receiver] = [send], [wait, receive]
        program = lower(ring_of_four(), nodes)
        result = program.run()
        assert result.compiled == (not tie)
        assert result.cycles[receiver] == max(arrival, duration)
        assert result.cycles[sender] == arrival


@pytest.mark.parametrize(
    ("type_", "lacks"),
    [
        (NodeType.COMM_COLL, "comm_type"),
        (NodeType.COMM_COLL, "comm_size"),
        (NodeType.COMM_SEND, "comm_dst"),
        (NodeType.COMM_RECV, "comm_src"),
    ],
)
def test_a_communication_that_lacks_an_attribute_is_told(type_: NodeType, lacks: str) -> None:
    """A type of 0 would be an all-reduce, and a peer of 0 a rank; replayed, nothing is read."""
    attributes = {"comm_type": 0, "comm_size": 8, "comm_src": 2, "comm_dst": 2}
    del attributes[lacks]
    nodes = on_all(compute(0, 1), TraceNode(1, "lost", type_, (), (), 0, 0, attributes))
    with pytest.raises(DimsweepError, match=f"{type_.name}_NODE without {lacks}") as error:
        lower(ring_of_four(), nodes).run()
    assert "rank 0, node 'lost'" in error.value.where
    if type_ is not NodeType.COMM_RECV:
        assert lower(ring_of_four(replay_only=True), nodes).run().cycles == (1000,) * 4


def test_chunks_that_tie_are_put_in_order() -> None:
    given_inputs = ring_of_four()
    system = replace(given_inputs.system, splits=4, active_chunks=2)
    given_inputs = replace(given_inputs, system=system)
    result = lower(given_inputs, on_all(collective(0), compute(1, 3))).run()
    assert result.compiled
    assert result.cycles == lower(given_inputs, on_all(collective(0)), folded=False).run().cycles


def test_what_is_not_lowered_says_why() -> None:
    given_inputs, nodes = ring_of_four(), on_all(collective(0))
    aware = replace(given_inputs.options, aware=True)
    assert "links" in lower(replace(given_inputs, options=aware), nodes).interpreted
    assert "message" in lower(given_inputs, nodes, folded=False).interpreted
    assert lower(given_inputs, nodes).interpreted == ""
    odd = [nodes[0], *on_all(collective(0, size=2**21))[:3]]
    assert "not alike" in lower(given_inputs, odd).interpreted


def test_ranks_that_another_bandwidth_tells_apart() -> None:
    """Two rings, of 2 and of 3: one pair in the first, two in the second."""
    network = Network((Ring(), Ring()), (2, 3), (50.0, 50.0), (500.0, 500.0))
    pairs = {"1": (0, 1), "2": (2, 4), "3": (3, 5)}
    given_inputs = replace(ring_of_four(groups=pairs), network=network)
    name = {rank: pair for pair, ranks in pairs.items() for rank in ranks}
    nodes = [[node_of(collective(0))._replace(group=name[rank])] for rank in range(6)]
    program = lower(given_inputs, nodes)
    assert program.run().n_kinds == 1
    slower = replace(given_inputs, network=replace(network, gigabytes=(50.0, 25.0)))
    other = lower(slower, nodes).run()
    assert other.n_kinds == 2 and other.compiled
    assert other.cycles[0] == program.run().cycles[0] < other.cycles[2]


def test_numbers_beyond_the_kernels_are_left_to_python() -> None:
    nodes = [[node_of(compute(0, 1))._replace(duration=2**70)]] * 4
    assert lower(ring_of_four(), nodes).run().cycles == (2**70,) * 4
    network = replace(ring_of_four().network, gigabytes=(1e-9,), latency=(0.0,))
    slow = lower(replace(ring_of_four(), network=network), on_all(collective(0, size=2**40)))
    assert slow.interpreted == ""
    result = slow.run()
    assert not result.compiled and result.cycles[0] > 2**53


def test_a_trace_that_deadlocks_is_explained() -> None:
    receive = TraceNode(
        0, "receive", NodeType.COMM_RECV, (), (), 0, 0, {"comm_src": 1, "comm_size": 9}
    )
    nodes = on_all(collective(1))
    nodes[0] = [node_of(receive), *nodes[0]]
    with pytest.raises(DimsweepError, match="rank 0: 1 nodes left, at receive"):
        lower(ring_of_four(), nodes).run()
