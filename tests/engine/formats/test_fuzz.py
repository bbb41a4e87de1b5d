"""Whatever is in a file of another tool, reading it ends in what it says or in one sentence."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import engine.formats.content
from engine import DimsweepError
from engine.formats import read_astra1_layers, read_measured, read_nccl_tests
from engine.formats.astra_sim import Options, read_inputs, read_topology
from engine.formats.chakra import read_groups, read_trace, scan_traces, write_trace
from engine.formats.chakra.lint.trace import lint_trace
from engine.formats.content import read_bytes
from engine.formats.pytorch import convert_traces

STUDIES = Path(__file__).parents[3] / "studies" / "traces" / "astra_sim"
NETWORK, SYSTEM = STUDIES / "network.yml", STUDIES / "system.json"
TRACE = STUDIES / "all_reduce.et"
GROUPS = {"forward": "tensor", "input_grad": "tensor", "weight_grad": "data"}
ASTRA1 = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 4
1
layer1 -1 100 ALLREDUCE 1024 100 NONE 0 100 ALLGATHER 2048 10
"""
NCCL = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong
        1024           256     float     sum      -1    12.50    0.08    0.14      0
"""
MEASURED = "kernel,duration\nmatmul,12.5 us\nsoftmax,3 us\n"
HOST = """\
{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 2, "name": "aten::mm", "ctrl_deps": 1,
"inputs": {"values": [], "shapes": [], "types": []}, "outputs": {"values": [], "shapes": [],
"types": []}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}]}]}
"""
JUNK = (
    *(b"", b"\0", b"\xff" * 9, b"\x80\x80\x80", b"-1", b"1e999", b"1e-20", b"nan", b"null", b"[]"),
    *(
        b"{",
        b"[[1], 2]",
        b'"',
        b"[bold]",
        b"\x1b[31m",
        b",",
        b"\n",
        b"9" * 40,
        "é".encode("latin-1"),
    ),
    *(b"[" * 3000, b'{"a":' * 3000, b"&a [*a]", b"true", b"0", b":"),
)


def written(json: bool) -> bytes:
    """The trace as it is written, in either form."""
    file = Path(f"written.{'json' if json else 'et'}")
    write_trace(file, read_trace(TRACE))
    return file.read_bytes()


READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "trace": (".et", lambda: written(json=False), read_trace),
    "trace as JSON": (".json", lambda: written(json=True), read_trace),
    "compressed trace": (".et", lambda: gzip.compress(written(json=False)), read_trace),
    "lint": (
        ".et",
        lambda: written(json=False),
        lambda file: list(lint_trace(*scan_traces([file]))),
    ),
    "groups": (".json", lambda: b'{"1": [0, 1], "2": [2, 3]}', lambda file: read_groups(file, 4)),
    "network.yml": (".yml", NETWORK.read_bytes, read_topology),
    "system.json": (
        ".json",
        SYSTEM.read_bytes,
        lambda file: read_inputs(file, NETWORK, None, None, Options()),
    ),
    "ASTRA-sim 1.0 text": (
        ".txt",
        ASTRA1.encode,
        lambda file: read_astra1_layers(file, GROUPS, {"tensor": 4, "data": 1}),
    ),
    "nccl-tests": (".txt", NCCL.encode, read_nccl_tests),
    "measured": (".csv", MEASURED.encode, read_measured),
    "PyTorch": (".json", HOST.encode, lambda file: convert_traces([file], [])),
}
EACH = 200


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_end_in_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeded; bytes are flipped, cut out, doubled or exchanged for what some reader dislikes."""
    monkeypatch.chdir(tmp_path)
    ending, original, read = READERS[name]
    draw, whole, told = random.Random(name), original(), 0
    file = tmp_path / f"fuzzed{ending}"
    for _ in range(EACH):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at, length = draw.randrange(len(data) + 1), draw.randint(0, 8)
            data[at : at + length] = draw.choice(
                [*JUNK, bytes(data[at : at + 40]), bytes([at % 256])]
            )
        file.write_bytes(data)
        try:
            read(file)
        except DimsweepError as error:
            told += 1
            assert error.what.strip(), bytes(data)[:300]
        except Exception as error:
            raise AssertionError(f"{error!r} of {bytes(data)[:400]!r}") from error
    assert told > EACH // 10, "these were no mutations"


def test_a_file_inflates_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bomb.et"
    file.write_bytes(gzip.compress(bytes(2_000_000)))
    assert len(read_bytes(file, "trace")) == 2_000_000
    monkeypatch.setattr(engine.formats.content, "_LARGEST", 1_000_000)
    with pytest.raises(DimsweepError, match="the compressed trace inflates to more than"):
        read_bytes(file, "trace")
