"""The policies of ASTRA-sim 1.0 text that run layers otherwise: what starts when, and how long."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveModel,
    DimsweepError,
    Group,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.formats import read_astra1_layers
from dimsweep.engine.workload import Layer, TrainingLoop, training_iteration

GROUPS = {"forward": "tensor", "input_grad": "tensor", "weight_grad": "data"}
_US = 1_000_000  # ps
# 8 MB take 7 us in one way, as an all-reduce of 4 MB does in two, among 8 with 1 TB/s.
CLUSTER = Cluster(
    Topology.build("Switch(8)", bandwidth=[1e12], latency=[0]),
    collectives=CollectiveModel(chunks=1),
)


def layer(
    name: str, *micros: int, forward: str = "NONE 0", back: str = "NONE 0", weights: str = "NONE 0"
) -> str:
    """A line: three durations, in us, and three collectives."""
    f, i, w = (each * 1000 for each in micros)
    return f"{name} -1 {f} {forward} {i} {back} {w} {weights} 9"


def read(folder: Path, header: str, *lines: str, tensor: int = 1) -> list[Layer]:
    file = folder / "model.txt"
    file.write_text("\n".join([header, str(len(lines)), *lines]))
    return read_astra1_layers(file, GROUPS, {"tensor": tensor, "data": 8 // tensor})


def ways(layers: list[Layer], loop: TrainingLoop, tensor: int = 1, **more: bool) -> Workload:
    groups = {"tensor": Group((tensor,), (1,)), "data": Group((8 // tensor,), (tensor,))}
    return Workload((training_iteration(layers, loop, **more),), groups)


def micros(layers: list[Layer], loop: TrainingLoop, tensor: int = 1, **more: bool) -> float:
    return simulate(ways(layers, loop, tensor, **more), CLUSTER).time_ps / _US


OVERLAP, BLOCKING = TrainingLoop.OVERLAP_GRADIENTS, TrainingLoop.NO_OVERLAP
EXCHANGE = "ALLTOALL 8000000"  # 7 us
GRADIENTS = "ALLREDUCE 4000000"  # 7 us


# --- embeddings ---------------------------------------------------------------------------------


def dlrm(bottom: int, backward: int = 20) -> list[str]:
    """Embeddings of 3 us, a bottom layer, and a top layer of 10 us."""
    return [
        layer("embeddings", 3, 50, 4, forward=EXCHANGE, back=EXCHANGE),
        layer("bottom", bottom, backward, backward, weights=GRADIENTS),
        layer("top", 10, 10, 10, weights=GRADIENTS),
    ]


@pytest.mark.parametrize("policy", ["HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"])
@pytest.mark.parametrize(("bottom", "waits"), [(2, 5), (6, 1), (7, 0), (9, 0)])
def test_embeddings_are_exchanged_beside_the_bottom_layers(
    tmp_path: Path, policy: str, bottom: int, waits: int
) -> None:
    layers = read(tmp_path, f"{policy} DLRM_LAST_BOTTOM_LAYER: 1", *dlrm(bottom))
    # Forward 3 + bottom + what the exchange of 7 needs beyond it + 10; backward 10 + 10, then
    # 20 + 20 beside all else, and 4; the last gradients, of the bottom layer, take 7.
    assert micros(layers, OVERLAP) == 3 + bottom + waits + 10 + 20 + 40 + 7
    # One after another: two exchanges and two all-reduces of 7, and no input gradients of tables.
    assert micros(layers, BLOCKING) == 3 + bottom + 10 + 20 + 40 + 4 + 4 * 7


def test_what_starts_when_in_dlrm(tmp_path: Path) -> None:
    layers = read(tmp_path, "HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 1", *dlrm(2))
    (graph,) = ways(layers, OVERLAP, weight_gradients_first=True).graphs
    after = {each.name: [graph[i].name for i in each.after] for each in graph}
    assert after == {
        "embeddings forward": [],
        "embeddings forward all_to_all": ["embeddings forward"],
        "bottom forward": ["embeddings forward"],
        "top forward": ["embeddings forward all_to_all", "bottom forward"],
        "top weight_grad": ["top forward"],
        "top weight_grad all_reduce": ["top weight_grad"],
        "top input_grad": ["top weight_grad"],
        "embeddings input_grad all_to_all": ["top input_grad"],
        "bottom weight_grad": ["top input_grad"],
        "bottom weight_grad all_reduce": ["bottom weight_grad"],
        "bottom input_grad": ["bottom weight_grad"],
        "embeddings weight_grad": ["bottom input_grad"],
    }
    assert {part.group for each in graph if (part := each.work) and hasattr(part, "group")} == {
        "data"
    }, "all NPUs exchange embeddings"


# --- checkpoints --------------------------------------------------------------------------------

_TRANSFORMER = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 "


def blocks(n: int) -> list[str]:
    """Forward passes of 1, 2, 4, ... us and an all-reduce of 7."""
    return [layer(f"b{i}", 2**i, 100, 100, forward=GRADIENTS) for i in range(n)]


@pytest.mark.parametrize("loop", list(TrainingLoop))
@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("checkpoints: 0 checkpoint_initiates: 0", []),
        ("checkpoints: 1 0 checkpoint_initiates: 1 4", [0, 1, 2, 3]),
        ("checkpoints: 1 0 checkpoint_initiates: 1 3", [0, 1, 2]),
        ("checkpoints: 2 0 3 checkpoint_initiates: 2 2 4", [3, 0, 1]),
        ("CHECKPOINTS: 2 3 0 checkpoint_initiates: 2 4 2", [3, 0, 1]),
        ("checkpoints: 2 0 1 checkpoint_initiates: 1 3", [1, 2]),
    ],
)
def test_layers_from_a_checkpoint_run_forward_again(
    tmp_path: Path, loop: TrainingLoop, said: str, again: list[int]
) -> None:
    layers = read(tmp_path, _TRANSFORMER + said, *blocks(5), tensor=8)
    once = sum(2**i + 7 for i in range(5)) + 5 * 200
    assert micros(layers, loop, tensor=8) == once + sum(2**i + 7 for i in again)
    (graph,) = ways(layers, loop, tensor=8).graphs
    computed = [each.name for each in graph if each.name.endswith("again")]
    assert computed == [f"b{i} forward again" for i in again]


def test_what_is_computed_again_comes_before_input_gradients(tmp_path: Path) -> None:
    said = "checkpoints: 1 0 checkpoint_initiates: 1 1"
    layers = read(tmp_path, _TRANSFORMER + said, *blocks(3), tensor=8)
    (graph,) = ways(layers, BLOCKING, tensor=8).graphs
    names = [each.name for each in graph]
    place = names.index("b0 forward again")
    assert names[place - 1] == "b2 weight_grad"
    assert names[place + 1 : place + 3] == ["b0 forward again all_reduce", "b1 input_grad"]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("checkpoints: 1 0", "no number follows checkpoint_initiates:"),
        ("", "no number follows checkpoints:"),
        ("checkpoints: x", "no number follows checkpoints:"),
        ("checkpoints: 2 0 checkpoint_initiates: 1 2", "checkpoints: 2 is not followed by"),
        ("checkpoints: 2 0 0 checkpoint_initiates: 1 2", "checkpoints: 2 is not followed by"),
        ("checkpoints: 1 5 checkpoint_initiates: 1 2", "checkpoints: 1 is not followed by"),
        ("checkpoints: 1 0 checkpoint_initiates: 9", "checkpoint_initiates: 9 is not followed"),
        ("checkpoints: 1 0 checkpoint_initiates: 1 -1", "checkpoint_initiates: 1 is not followed"),
        ("checkpoints: 1 2 checkpoint_initiates: 1 1", "layer 1 initiates a recomputation, "
         "but no checkpoint is before it"),
        ("checkpoints: 1 2 checkpoint_initiates: 1 2", "but is a checkpoint itself"),
        ("checkpoints: 1 0 checkpoint_initiates: 2 2 4", "so does layer 2, between it and its"),
    ],
)  # fmt: skip
def test_checkpoints_that_do_not_fit_are_told(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(DimsweepError, match=re.escape(problem)) as error:
        read(tmp_path, _TRANSFORMER + said, *blocks(5), tensor=8)
    assert error.value.where.endswith("model.txt:1")


def test_a_header_of_twelve_words_is_one(tmp_path: Path) -> None:
    """As many as a layer has."""
    said = "checkpoints: 3 0 1 2 checkpoint_initiates: 1 4"
    assert len((_TRANSFORMER + said).split()) == 12 - 1
    said = "checkpoints: 4 0 1 2 3 checkpoint_initiates: 1 4"
    assert len((_TRANSFORMER + said).split()) == 12
    assert read(tmp_path, _TRANSFORMER + said, *blocks(5), tensor=8)[4].again == 3


# --- the others ---------------------------------------------------------------------------------


def test_inference_has_no_backward_pass(tmp_path: Path) -> None:
    layers = read(tmp_path, "DISTRIBUTED_INFERENCE", *blocks(3), tensor=8)
    assert micros(layers, BLOCKING, tensor=8) == 1 + 2 + 4 + 3 * 7


def test_a_micro_benchmark_is_one_collective(tmp_path: Path) -> None:
    line = layer("allreduce", 5, 5, 5, forward=EXCHANGE, weights=GRADIENTS)
    assert micros(read(tmp_path, "MICRO", line), OVERLAP) == 7
    for lines, problem in (([line, line], "the file has 2 layers"), (blocks(1), "has none")):
        with pytest.raises(DimsweepError, match=f"MICRO runs the weight-gradient.*{problem}"):
            read(tmp_path, "MICRO", *lines)


_WORDS = st.sampled_from(
    [
        *("checkpoints:", "checkpoint_initiates:", "DLRM_LAST_BOTTOM_LAYER:"),
        *("model_parallel_NPU_group:", "0", "1", "2", "3", "8", "9" * 30, "-1", "x"),
    ]
)


@given(
    kind=st.sampled_from(
        ["HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DLRM", "MICRO", "DISTRIBUTED_INFERENCE"]
    ),
    words=st.lists(_WORDS, max_size=12),
)
def test_any_header_is_read_or_an_error_of_its_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, words: list[str]
) -> None:
    header = " ".join([kind, *words])
    try:
        layers = read(tmp_path_factory.mktemp("w"), header, *blocks(4), tensor=8)
    except DimsweepError as error:
        assert error.where.endswith("model.txt:1")
    else:
        assert all(each.again is None or 0 <= each.again < i for i, each in enumerate(layers))
        assert training_iteration(layers, OVERLAP)


# --- headers of SimAI and AICB ------------------------------------------------------------------

SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 1 pp: 1 vpp: 8 ga: 2 "
    "all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0 pp_comm 50331648"
)


def test_a_header_of_simai_that_fits_the_plan_is_read(tmp_path: Path) -> None:
    lines = layer("attention", 5, 5, 5, weights=GRADIENTS), layer("mlp", 5, 5, 5)
    bare = SIMAI.partition(" ep:")[0]
    plain = f"{bare} checkpoints: 0 checkpoint_initiates: 0"
    assert read(tmp_path, SIMAI, *lines, tensor=4) == read(tmp_path, plain, *lines, tensor=4)
    for other in (SIMAI.replace("pp_comm 50331648", "pp_comm: 0.0"), SIMAI.replace("\n", "\r\n")):
        assert len(read(tmp_path, other, *lines, tensor=4)) == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("pp: 1", "pp: 4", "pp: 4: pipeline parallelism"),
        ("ep: 1", "ep: 2", "ep: 2: expert parallelism"),
        ("all_gpus: 8", "all_gpus: 64", "all_gpus: 64, but the plan has 8 NPUs"),
        ("all_gpus: 8", "all_gpus: some", "no number follows all_gpus:"),
        ("all_gpus: 8", "all_gpus: 8 moe", "unknown word 'moe'"),
        ("NPU_group: 4", "NPU_group: 8", "has 8 model-parallel NPUs"),
        ("vpp: 8", "cp: 2", "unknown word 'cp:'"),
    ],
)
def test_a_header_of_simai_for_another_plan_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    """They were passed over, so a job of 64 GPUs in 4 stages was simulated as 8 without one."""
    assert old in SIMAI
    with pytest.raises(DimsweepError) as raised:
        read(tmp_path, SIMAI.replace(old, new), layer("one", 5, 5, 5), tensor=4)
    assert says in raised.value.problem
    assert raised.value.where == f"{tmp_path / 'model.txt'}:1"
