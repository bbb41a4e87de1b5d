"""ASTRA-sim 1.0 workload text: what is read, and that errors name file and line."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dimsweep.engine import CollectiveKind, Compute, DimsweepError
from dimsweep.engine.formats import read_astra1_layers
from dimsweep.engine.workload import Communication, Layer, Pass
from tests.support.refused import refused

GROUPS = {"forward": "tensor", "input_grad": "expert", "weight_grad": "data"}
FIRST = "conv1 -1 100 NONE 0 200 ALLGATHER 4096 300.5 ALLREDUCE 512 10"
SECOND = "fc -1 1 ALLTOALL 8 2 REDUCESCATTER 16 3 NONE 0 10"

CONV1 = Layer(
    "conv1",
    Pass(Compute(duration=100_000)),
    Pass(Compute(duration=200_000), Communication(CollectiveKind.ALL_GATHER, 4096, "expert")),
    Pass(Compute(duration=300_500), Communication(CollectiveKind.ALL_REDUCE, 512, "data")),
)
FC = Layer(
    "fc",
    Pass(Compute(duration=1000), Communication(CollectiveKind.ALL_TO_ALL, 8, "tensor")),
    Pass(Compute(duration=2000), Communication(CollectiveKind.REDUCE_SCATTER, 16, "expert")),
    Pass(Compute(duration=3000)),
)


@pytest.fixture
def read(tmp_path: Path):
    """Reads a text as a workload file called ``model.txt``."""

    def read_text(text: str) -> list[Layer]:
        file = tmp_path / "model.txt"
        file.write_text(text, encoding="utf-8")
        return read_astra1_layers(file, GROUPS)

    return read_text


def test_without_header(read) -> None:
    assert read(f"{FIRST}\n{SECOND}\n") == [CONV1, FC]


def test_with_header(read) -> None:
    assert read(f"HYBRID_DATA_MODEL\n2\n{FIRST}\n{SECOND}\n") == [CONV1, FC]


def test_a_header_may_have_more_words(read) -> None:
    assert read(f"HYBRID_TRANSFORMER model_parallel_NPU_group: 16\n1\n{FIRST}") == [CONV1]


@pytest.mark.parametrize(
    ("header", "tensor", "problem"),
    [
        ("DATA", 1, ""),
        ("data", 1, ""),
        ("DATA", 4, "DATA has 1 model-parallel NPUs, but the plan's 'tensor' has 4"),
        ("HYBRID_DATA_MODEL", 4, ""),
        ("HYBRID_DATA_MODEL", 1, "has several model-parallel NPUs, but the plan's 'tensor' has 1"),
        ("MODEL", 1, "has several model-parallel NPUs"),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 16", 16, ""),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 16", 1, "has 16 model-parallel NPUs"),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: two", 2, "no number follows"),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 16",
            1,
            "has 16 model-parallel",
        ),
        ("HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 0", 4, "HYBRID_DLRM has 1 model-parallel NPUs"),
        ("HYBRID_DLRM", 1, "the last bottom layer is missing"),
        ("HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: one", 1, "no number follows DLRM_LAST_BOTTOM_LAYER:"),
        ("HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER:", 1, "no number follows"),
        (
            "HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 0",
            1,
            "no layer follows the last bottom layer, 0, of",
        ),
        ("MICRO", 4, "MICRO has 1 model-parallel NPUs"),
        ("DISTRIBUTED_INFERENCE", 1, "has several model-parallel NPUs"),
        ("HYBRID_CUSTOMIZED", 1, "HYBRID_CUSTOMIZED is not simulated"),
    ],
)
def test_the_header_says_what_is_simulated_or_is_refused(
    tmp_path: Path, header: str, tensor: int, problem: str
) -> None:
    file = tmp_path / "model.txt"
    file.write_text(f"{header}\n1\n{FIRST}")
    degrees = {"tensor": tensor, "expert": 1, "data": 8}
    if not problem:
        assert read_astra1_layers(file, GROUPS, degrees) == [CONV1]
        return
    with pytest.raises(DimsweepError) as error:
        read_astra1_layers(file, GROUPS, degrees)
    assert problem in error.value.problem
    assert error.value.where.endswith("model.txt:1")


def test_blank_lines_and_spaces_do_not_matter(read) -> None:
    spaced = FIRST.replace(" ", "  \t")
    assert read(f"\n\nDATA\n\n2\n\n  {spaced}  \n\n{SECOND}\n\n\n") == [CONV1, FC]


def test_types_are_read_in_any_case(read) -> None:
    assert read(FIRST.lower().replace("none", "None")) == [CONV1]


def test_windows_lines(read) -> None:
    assert read(f"DATA\r\n1\r\n{FIRST}\r\n") == [CONV1]


def change(line: str, column: int, word: str) -> str:
    words = line.split()
    words[column] = word
    return " ".join(words)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (FIRST + " 11", "has 13 columns"),
        (FIRST.rsplit(" ", 1)[0], "has 11 columns"),
        (change(FIRST, 2, "fast"), "compute time 'fast' is not a number"),
        (change(FIRST, 4, "1MB"), "message size '1MB' is not a number"),
        (change(FIRST, 11, "soon"), "update time 'soon' is not a number"),
        (change(FIRST, 5, "-1"), "compute time '-1' is not between 0"),
        (change(FIRST, 10, "-512"), "message size '-512' is not between 0"),
        (change(FIRST, 8, "nan"), "compute time 'nan' is not between 0"),
        (change(FIRST, 8, "inf"), "compute time 'inf' is not between 0"),
        (change(FIRST, 8, "1e300"), "compute time '1e300' is not between 0"),
        (change(FIRST, 9, "ALLREDUCEALLTOALL"), "unknown collective 'ALLREDUCEALLTOALL'"),
    ],
)
def test_malformed_lines_name_file_and_line(read, line: str, problem: str) -> None:
    with pytest.raises(DimsweepError) as error:
        read(f"DATA\n2\n\n{SECOND}\n{line}\n")
    assert problem in error.value.problem
    assert "model.txt:5" in error.value.where


@pytest.mark.parametrize(
    ("column", "name"), [(3, "forward"), (6, "input_grad"), (9, "weight_grad")]
)
def test_errors_name_the_pass(read, column: int, name: str) -> None:
    with pytest.raises(DimsweepError) as error:
        read(change(FIRST, column, "BROADCAST"))
    assert error.value.where.endswith(f"model.txt:1 ({name})")
    assert error.value.hint == "NONE, ALLREDUCE, REDUCESCATTER, ALLGATHER, ALLTOALL"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_noticed(read, count: int) -> None:
    with refused("model.txt", "mismatch", f"{count} layers", "2"):
        read(f"DATA\n{count}\n{FIRST}\n{SECOND}\n")


def test_a_count_is_a_number(read) -> None:
    with refused("model.txt:2", "bad-syntax", "'two'"):
        read(f"DATA\ntwo\n{FIRST}\n{SECOND}\n")


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_an_empty_file_is_an_error(read, text: str) -> None:
    with refused("model.txt", "missing"):
        read(text)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with refused("nowhere.txt", "inaccessible"):
        read_astra1_layers(tmp_path / "nowhere.txt", GROUPS)


def test_a_folder_is_no_workload(tmp_path: Path) -> None:
    with refused(str(tmp_path), "inaccessible"):
        read_astra1_layers(tmp_path, GROUPS)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"\xff\xfe\x00conv")
    with refused("model.bin", "bad-syntax"):
        read_astra1_layers(file, GROUPS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from([*FIRST.split(), "DATA", "2", "-", "x"]), max_size=13)))
def test_any_words_are_layers_or_an_error(read, lines: list[list[str]]) -> None:
    text = "\n".join(" ".join(words) for words in lines)
    try:
        layers = read(text)
    except DimsweepError as error:
        assert "model.txt" in error.where
    else:
        assert all(isinstance(layer, Layer) for layer in layers)
