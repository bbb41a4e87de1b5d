"""Model generators and training loops: what they compute, what they communicate, in which order."""

import pytest

from dimsweep.engine import (
    Access,
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Operator,
)
from dimsweep.engine.workload import (
    Communication,
    Convolution,
    Layer,
    Pass,
    TrainingLoop,
    TransformerSlice,
    data_parallel,
    training_iteration,
)
from tests.support.refused import refused

ALL_REDUCE = CollectiveKind.ALL_REDUCE


def layer(name: str) -> Layer:
    """Each pass computes; all but the input gradient communicate."""
    return Layer(
        name,
        Pass(Compute(duration=1), Communication(CollectiveKind.ALL_GATHER, 8, "tensor")),
        Pass(Compute(duration=2)),
        Pass(Compute(duration=3), Communication(ALL_REDUCE, 16, "data")),
    )


def waits(graph: tuple[Operator, ...]) -> list[tuple[str, list[str]]]:
    return [(op.name, [graph[i].name for i in op.after]) for op in graph]


def test_no_overlap_is_a_chain() -> None:
    graph = training_iteration([layer("a"), layer("b")], TrainingLoop.NO_OVERLAP)
    assert [operator.name for operator in graph] == [
        "a forward",
        "a forward all_gather",
        "b forward",
        "b forward all_gather",
        "b input_grad",
        "b weight_grad",
        "b weight_grad all_reduce",
        "a input_grad",
        "a weight_grad",
        "a weight_grad all_reduce",
    ]
    assert [operator.after for operator in graph] == [(), *((i,) for i in range(9))]


def test_overlapping_gradients_hold_nothing_up() -> None:
    graph = training_iteration([layer("a"), layer("b")], TrainingLoop.OVERLAP_GRADIENTS)
    after = dict(waits(graph))
    assert after["b weight_grad all_reduce"] == ["b weight_grad"]
    assert after["a input_grad"] == ["b weight_grad"]
    # Activations still block: the next layer needs them.
    assert after["b forward"] == ["a forward all_gather"]


@pytest.mark.parametrize("loop", list(TrainingLoop))
def test_both_loops_do_the_same_work(loop: TrainingLoop) -> None:
    graph = training_iteration([layer("a"), layer("b")], loop)
    assert sum(op.work.duration for op in graph if isinstance(op.work, Compute)) == 2 * (1 + 2 + 3)
    assert sum(op.work.n_bytes for op in graph if isinstance(op.work, Collective)) == 2 * (8 + 16)


def test_passes_without_work_leave_no_operators() -> None:
    idle = Layer("idle", Pass(Compute(duration=0)), Pass(), Pass(Compute()))
    assert training_iteration([idle], TrainingLoop.NO_OVERLAP) == ()


def test_a_builder_numbers_operators_and_sorts_what_they_wait_for() -> None:
    builder = GraphBuilder()
    first = builder.add("first", Compute(duration=1))
    second = builder.add("second", Compute(duration=1), [first])
    third = builder.add("third", Compute(duration=1), [second, first, second])
    assert (first, second, third) == (0, 1, 2)
    assert builder.build()[third].after == (first, second)


# --- transformers -------------------------------------------------------------------------------

# Two blocks of 1024 x 1024 with 4 x 256 tokens, tensor-parallel by 8, on 1 TFLOP/s.
SLICE = TransformerSlice(1024, 2, 4, 256, tensor=8, flops=1e12)


def test_sizes_follow_from_the_model() -> None:
    assert SLICE.activation_bytes == 4 * 256 * 1024 * 2
    assert SLICE.gradient_bytes == 2 * (12 * 1024**2) * 2 // 8


def test_gradients_are_summed_once() -> None:
    layers = SLICE.build()
    summed = [(i, x.weight_grad.communication) for i, x in enumerate(layers)]
    assert [i for i, communication in summed if communication] == [0]
    assert summed[0][1] == Communication(ALL_REDUCE, SLICE.gradient_bytes, "data")


def test_megatrons_collectives_in_every_block() -> None:
    layers = SLICE.build()
    assert len(layers) == 2 * 9
    for block in (layers[:9], layers[9:]):
        forward = [x.forward.communication for x in block if x.forward.communication]
        backward = [x.input_grad.communication for x in block if x.input_grad.communication]
        whole = Communication(ALL_REDUCE, SLICE.activation_bytes, "tensor")
        shard = Communication(CollectiveKind.ALL_GATHER, SLICE.activation_bytes // 8, "tensor")
        assert forward == [whole, whole]
        assert backward == [whole, shard, whole]


def test_durations_are_flops_over_rate_in_whole_nanoseconds() -> None:
    query = SLICE.build()[0].forward.compute.duration
    assert query == round(2 * 1024 * 1024**2 / 8 / 1e12 * 1e9) * 1000


@pytest.mark.parametrize("key", ["hidden", "layers", "batch", "sequence", "tensor"])
def test_a_transformer_has_positive_dimensions(key: str) -> None:
    values = {"hidden": 1024, "layers": 2, "batch": 4, "sequence": 256, "tensor": 8, "flops": 1e12}
    with refused(key, "out-of-range", "0"):
        TransformerSlice(**{**values, key: 0})


def test_the_tensor_degree_divides_the_hidden_size() -> None:
    with refused("tensor", "mismatch", "1024", "3"):
        TransformerSlice(1024, 2, 4, 256, tensor=3, flops=1e12)


# --- convolutions -------------------------------------------------------------------------------


def test_gradients_of_a_convnet_follow_from_its_shapes() -> None:
    convolutions = [
        Convolution("conv", 3, 64, 7, 10, 20, 30),
        Convolution("fc", 64, 10, 1, 1, 2, 3),
    ]
    first, last = data_parallel(convolutions, bytes_per_value=2)
    n_bytes = 2 * (3 * 64 * 49 + 64 * 10)
    # The backward pass ends with the first layer.
    assert first.weight_grad == Pass(
        Compute(duration=30), Communication(ALL_REDUCE, n_bytes, "data")
    )
    assert last.weight_grad.communication is None
    assert first.forward == Pass(Compute(duration=10))


def test_a_convnet_has_layers() -> None:
    with refused("layers", "missing"):
        data_parallel([], 2)


def test_what_a_pass_loads_it_loads_before() -> None:
    loads = Layer("a", Pass(Compute(duration=1), load=8.0), Pass(load=4.0))
    graph = training_iteration([loads], TrainingLoop.NO_OVERLAP)
    found = [(operator.name, operator.work) for operator in graph]
    assert found == [
        ("a forward load", Access(8.0)),
        ("a forward", Compute(duration=1)),
        ("a input_grad load", Access(4.0)),
    ]
    assert [operator.after for operator in graph] == [(), (0,), (1,)]
