"""Chakra traces: what is read and written, and that errors name file, node and byte."""

import gc
import gzip
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import (
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    read_trace,
    read_traces,
    write_trace,
)


def varint(number: int) -> bytes:
    number %= 2**64  # negative ones are ten bytes long
    low = [number >> shift & 127 for shift in range(0, 70, 7)]
    while len(low) > 1 and not low[-1]:
        low.pop()
    return bytes([*(byte | 128 for byte in low[:-1]), low[-1]])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def content(field: int, value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def stream(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def node(id_: int, *fields: bytes, type_: int = NodeType.COMP) -> bytes:
    return number(1, id_) + number(3, type_) + b"".join(fields)


METADATA = content(1, "0.0.4")
WAITS_FOR_7 = number(5, 7)
WAITS_8 = number(5, 8)

Read = Callable[..., Trace]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads bytes as a trace called ``w.3.et``."""

    def read_bytes(data: bytes, name: str = "w.3.et") -> Trace:
        file = tmp_path / name
        file.write_bytes(data)
        return read_trace(file)

    return read_bytes


@pytest.fixture
def refuse(read: Read, tmp_path: Path) -> Callable[..., str]:
    """What is said of bytes that are not a trace, without the folder."""

    def refused(data: bytes, name: str = "w.3.et") -> str:
        with pytest.raises(DimsweepError) as caught:
            read(data, name)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return refused


def test_a_node_as_the_schema_numbers_its_fields(read) -> None:
    fields = (
        number(1, 8),
        content(2, "matmul é"),
        number(3, 7),
        content(4, varint(7) + varint(300)),
        content(5, varint(300)),
        number(6, 11),
        number(7, 12),
        content(8, content(1, "[1]") + content(2, "[[4]]") + content(3, "['Tensor']")),
        content(9, content(4, "[2]")),
        content(10, content(1, "pg_name") + content(2, "doc") + content(29, "1")),
    )
    trace = read(stream(METADATA, node(7), node(300), b"".join(fields)))
    assert trace.version == "0.0.4"
    assert trace.nodes[2] == TraceNode(
        id=8,
        name="matmul é",
        type=NodeType.COMM_COLL,
        data_dependencies=(300,),
        control_dependencies=(7, 300),
        start_micros=11,
        duration_micros=12,
        attributes={"pg_name": "1"},
        inputs=TensorInfo("[1]", "[[4]]", "['Tensor']"),
        outputs=TensorInfo(strides="[2]"),
    )
    assert trace.nodes[2].dependencies == (300, 7)


# The fields of AttributeProto: number, what is there, what it means.
_WIRE = {
    "double": (3, b"\x19" + struct.pack("<d", -0.1), -0.1),
    "float": (5, b"\x2d" + struct.pack("<f", 0.5), 0.5),
    "int32": (7, number(7, -3), -3),
    "int64": (9, number(9, -(2**63)), -(2**63)),
    "uint32": (11, number(11, 2**32 - 1), 2**32 - 1),
    "uint64": (13, number(13, 2**64 - 1), 2**64 - 1),
    "sint32": (15, number(15, 5), -3),  # zigzag
    "sint64": (17, number(17, 2**64 - 1), -(2**63)),
    "fixed32": (19, b"\x9d\x01" + struct.pack("<I", 2**32 - 1), 2**32 - 1),
    "fixed64": (21, b"\xa9\x01" + struct.pack("<Q", 2**64 - 1), 2**64 - 1),
    "sfixed32": (23, b"\xbd\x01" + struct.pack("<i", -3), -3),
    "sfixed64": (25, b"\xc9\x01" + struct.pack("<q", -3), -3),
    "bool": (27, number(27, 1), True),
    "string": (29, content(29, "ä\0"), "ä\0"),
    "bytes": (31, content(31, b"\xff\0"), b"\xff\0"),
}


def same(value: object, expected: object) -> bool:
    return value == expected and type(value) is type(expected)


@pytest.mark.parametrize("scalar", _WIRE)
def test_every_value_has_the_number_of_the_schema(read, scalar) -> None:
    field, wire, expected = _WIRE[scalar]
    head = varint(field << 3 | wire[0] & 7)  # of the field; the same wire type fits a list's item
    item = varint(1 << 3 | wire[0] & 7) + wire[len(head) :]
    attributes = (
        content(10, content(1, "one") + wire),
        content(10, content(1, "many") + content(field + 1, item + item)),
        content(10, content(1, "none") + content(field + 1, b"")),
    )
    found = read(stream(METADATA, node(1, *attributes))).nodes[0].attributes
    assert wire.startswith(head)
    assert same(found["one"], expected)
    assert same(found["many"], (expected, expected)) and same(found["many"][0], expected)
    assert same(found["none"], ())


@pytest.mark.parametrize("scalar", _WIRE)
def test_a_value_is_written_to_the_field_it_came_from(read, tmp_path, scalar) -> None:
    field, wire, _ = _WIRE[scalar]
    attributes = (
        content(10, content(1, "one") + wire),
        content(10, content(1, "none") + content(field + 1, b"")),
    )
    data = stream(METADATA, node(1, *attributes))
    write_trace(tmp_path / "again.et", read(data))
    assert (tmp_path / "again.et").read_bytes() == data


def test_python_values_find_their_fields(tmp_path) -> None:
    values = {"b": True, "i": -1, "u": 2**63, "f": 1.5, "s": "x", "y": b"x", "n": None, "e": ()}
    values |= {"bs": (True,), "us": (0, 2**64 - 1), "fs": (0.5,), "ss": ("", "x")}
    trace = Trace((TraceNode(0, "", NodeType.INVALID, attributes=values),), metadata=values)
    for name in ("t.et", "t.json"):
        write_trace(tmp_path / name, trace)
        found = read_trace(tmp_path / name)
        assert found == trace
        assert [*map(type, found.metadata.values())] == [*map(type, values.values())]


def test_traces_of_symbolic_tensor_graph_have_no_version(read) -> None:
    trace = read(stream(content(2, content(1, "schema") + content(29, "stg")), node(1)))
    assert (trace.version, trace.metadata) == ("", {"schema": "stg"})


def test_nodes_may_come_before_what_they_wait_for(read) -> None:
    trace = read(stream(b"", node(3, WAITS_FOR_7), node(7)))
    assert [n.dependencies for n in trace.nodes] == [(7,), ()]


def test_dependencies_may_be_packed_or_not(read) -> None:
    packed = read(stream(METADATA, node(7), node(8, content(5, varint(7)))))
    assert packed == read(stream(METADATA, node(7), node(8, WAITS_FOR_7)))


def test_a_length_may_be_written_with_more_bytes_than_it_needs(read) -> None:
    data = stream(METADATA) + b"\x84\x80\x80\x80\0" + node(7)
    assert read(data) == read(stream(METADATA, node(7)))


def test_gzip_is_told_by_its_bytes_and_not_by_its_name(read, tmp_path) -> None:
    plain = stream(METADATA, node(1))
    trace = read(plain)
    assert read(gzip.compress(plain)) == trace
    assert read(plain, "w.3.et.gz") == trace
    write_trace(tmp_path / "packed", trace, compress=True)
    assert gzip.decompress((tmp_path / "packed").read_bytes()) == plain
    write_trace(tmp_path / "packed.json.gz", trace, compress=True)
    assert gzip.decompress((tmp_path / "packed.json.gz").read_bytes()).startswith(b"{\n")
    assert read_trace(tmp_path / "packed.json.gz") == read_trace(tmp_path / "packed") == trace


def test_ranks_share_the_nodes_they_have_in_common(tmp_path) -> None:
    common = content(10, content(1, "num_ops") + number(9, 3))
    for rank in range(2):
        data = stream(METADATA, node(1, common), node(2 + rank, common))
        (tmp_path / f"w.{rank}.et").write_bytes(data)
    first, second = read_traces([tmp_path / "w.0.et", tmp_path / "w.1.et"])
    assert first.nodes[0] is second.nodes[0]
    assert first.nodes[1].attributes is second.nodes[1].attributes
    assert [n.id for n in (*first.nodes, *second.nodes)] == [1, 2, 1, 3]


def test_reading_leaves_the_garbage_collector_as_it_was(read, refuse) -> None:
    assert gc.isenabled()
    read(stream(METADATA, node(1)))
    refuse(b"")
    assert gc.isenabled()
    gc.disable()
    try:
        read(stream(METADATA, node(1)))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_traces_travel_between_processes(read) -> None:
    trace = read(stream(METADATA, node(1), node(2, content(10, content(1, "a") + number(7, 1)))))
    assert pickle.loads(pickle.dumps(trace)) == trace


# JSON


JSONIZED = """{
  "version": "0.0.4"
}{
  "id": "7",
  "name": "load",
  "type": "MEM_LOAD_NODE",
  "durationMicros": "12"
}{
  "id": "8",
  "dataDeps": ["7"],
  "type": 7,
  "attr": [
    {"name": "comm_size", "int64Val": "4096"},
    {"name": "involved_dim", "boolList": {"values": [true, false]}},
    {"name": "blob", "bytesVal": "/w=="}
  ]
}"""
FROM_JSON = Trace(
    (
        TraceNode(7, "load", NodeType.MEM_LOAD, duration_micros=12),
        TraceNode(
            8,
            "",
            NodeType.COMM_COLL,
            (7,),
            attributes={"comm_size": 4096, "involved_dim": (True, False), "blob": b"\xff"},
        ),
    )
)


def test_what_chakra_jsonizer_writes(read) -> None:
    assert read(JSONIZED.encode(), "w.3.json") == FROM_JSON


def test_a_list_of_the_same_objects(read) -> None:
    assert read(f"[{JSONIZED.replace('}{', '}, {')}]".encode(), "w.3.json") == FROM_JSON


def test_json_is_written_as_chakra_jsonizer_does(tmp_path) -> None:
    write_trace(tmp_path / "w.json", FROM_JSON)
    assert read_trace(tmp_path / "w.json") == FROM_JSON
    text = (tmp_path / "w.json").read_text()
    assert json.loads(text[text.index("}") + 1 : text.index('}\n{\n  "id": "8"') + 1]) == {
        "id": "7",
        "name": "load",
        "type": "MEM_LOAD_NODE",
        "durationMicros": "12",
    }


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"name": "load"', '"nom": "load"', "w.3.json: node 1 at line 3: "),
        ('"7",\n', '"7"\n', "w.3.json: node 1 at line 3: Expecting ',' delimiter: line 5"),
        ("MEM_LOAD_NODE", "LOAD", "w.3.json: node 1 at line 3: "),
        ('["7"]', '["-7"]', "w.3.json: node 2 at line 8: "),
        ('["7"]', '["9"]', "w.3.json: node 2 (id 8) at line 8: it waits for id 9, which is not"),
        ("/w==", "A", "w.3.json: node 2 at line 8: "),
        ('"version": "0.0.4"', '"version": 4', "w.3.json: this is not a Chakra trace: "),
        ('"id": "8"', '"id": 1e400', "w.3.json: node 2 at line 8: "),
        ('int64Val": "4096"', f'doubleVal": {10**400}', "w.3.json: node 2 at line 8: "),
        ('"load"', '"\\ud800"', "w.3.json: node 1 at line 3: "),
    ],
)
def test_json_errors_name_node_and_line(refuse, old, new, complaint) -> None:
    assert old in JSONIZED
    assert refuse(JSONIZED.replace(old, new, 1).encode(), "w.3.json").startswith(complaint)


@pytest.mark.parametrize(
    "text", ["", " \n", "[]", "[[]]", "5", "nothing", '"x"', "[" * 100_000, "\xff", "{", "[{}] x"]
)
def test_other_json_is_not_a_trace(refuse, text) -> None:
    assert refuse(text.encode("latin-1"), "w.3.json").startswith("w.3.json: th")


@pytest.mark.parametrize("text", ["5", '"x"', "[[]]", "[null]"])
def test_other_values_than_objects_are_named(refuse, text) -> None:
    assert "this is not a Chakra trace: it is not a JSON object" in refuse(text.encode(), "w.json")


# Errors


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (stream(METADATA, node(7), node(7)), "node 2 (id 7) at byte 13: node 1 has the same id"),
        (stream(METADATA, node(8, WAITS_FOR_7)), "node 1 (id 8) at byte 8: it waits for id 7, w"),
        (stream(METADATA, node(7, WAITS_FOR_7)), "node 1 (id 7) at byte 8: it waits for itself"),
        (
            stream(
                METADATA,
                node(1),
                node(7, number(4, 9)),
                node(8, WAITS_FOR_7),
                node(9, number(5, 8)),
            ),
            "node 2 (id 7) at byte 13: it waits for itself, by way of id 9, id 8",
        ),
        (stream(METADATA, node(7, type_=8)), "node 1 at byte 8: id 7 has the unknown type 8"),
        (
            stream(METADATA, node(7, number(11, 1))),
            "node 1 at byte 8: field 11 of Node does",
        ),
        (
            stream(METADATA, node(7, content(1, "x"))),
            "node 1 at byte 8: field 1 of Node does",
        ),
        (
            stream(METADATA, node(7, content(2, b"\xff"))),
            "node 1 at byte 8: these 7 bytes are n",
        ),
        (
            stream(METADATA, node(7, content(10, b"\x0a"))),
            "node 1 at byte 8: these 1 bytes are n",
        ),
        (
            stream(METADATA, node(7, content(10, number(40, 1)))),
            "node 1 at byte 8: field 40 of AttributeProto does n",
        ),
        (
            stream(METADATA, node(7, content(10, content(10, number(9, 1))))),
            "node 1 at byte 8: field 9 of Int64List does n",
        ),
        (
            stream(METADATA, node(7, content(8, number(1, 1)))),
            "node 1 at byte 8: field 1 of IOInfo does n",
        ),
        (
            stream(METADATA, node(7, 2 * content(10, content(1, "a") + number(9, 1)))),
            "node 1 at byte 8: attribute 'a' is given twice",
        ),
        (stream(METADATA, node(7), b""), "node 2 at byte 13: it is empty"),
        (stream(METADATA, node(7), node(8))[:-1], "node 2 at byte 13: the file ends with 3 of its"),
        (stream(METADATA, node(7)) + b"\x80", "node 2 at byte 13: it does not begin with"),
        (stream(METADATA, node(7)) + b"\xff" * 5, "node 2 at byte 13: it does not begin with"),
    ],
)
def test_errors_name_node_and_byte(refuse, data, complaint) -> None:
    assert refuse(data).startswith(f"w.3.et: {complaint}")


@pytest.mark.parametrize(
    "data",
    [
        b"conv1 -1 100 NONE 0 200 ALLGATHER 4096 300.5 ALLREDUCE 512 10\n" * 9,
        b"{}\n" * 9,
        b"\x89PNG\r\n\x1a\n" + bytes(99),
        stream(node(1), node(2)),  # nodes only
        stream(content(3, "another"), content(3, "protobuf")),
        stream(content(2, number(1, 1))),
    ],
)
def test_something_else_is_not_a_trace(refuse, data) -> None:
    said = refuse(data)
    assert said.startswith("w.3.et: this is not a Chakra trace: ")
    assert "length-delimited protobuf" in said


def test_no_nodes_are_not_a_trace(refuse) -> None:
    assert refuse(b"") == refuse(b"\n\n") == "w.3.et: the trace is empty"
    assert refuse(stream(METADATA)) == refuse(b"\0") == "w.3.et: the trace has no nodes"


def test_damaged_gzip(refuse) -> None:
    packed = gzip.compress(stream(METADATA, node(1)))
    for data in (packed[:-9], packed[:-8] + bytes(8), packed[:10] + b"\xff" * 20):
        assert refuse(data).startswith("w.3.et: the compressed trace is damaged: ")


def test_unreadable_files(tmp_path) -> None:
    with pytest.raises(DimsweepError, match=r"absent\.et: cannot read the trace: No such file"):
        read_trace(tmp_path / "absent.et")
    with pytest.raises(DimsweepError, match="cannot read the trace: Is a directory"):
        read_trace(str(tmp_path))
    trace = Trace((TraceNode(1, "", NodeType.COMP),))
    with pytest.raises(DimsweepError, match="cannot write the trace: No such file"):
        write_trace(tmp_path / "absent" / "w.et", trace)


def test_one_bad_rank_of_many_is_named(tmp_path) -> None:
    for rank in range(3):
        (tmp_path / f"w.{rank}.et").write_bytes(stream(METADATA, node(1 + 7 * (rank == 2))))
    (tmp_path / "w.1.et").write_bytes(stream(METADATA, node(1, number(5, 8))))
    with pytest.raises(DimsweepError, match=r"w\.1\.et: node 1 \(id 1\) at byte 8: it waits"):
        read_traces(tmp_path / f"w.{rank}.et" for rank in range(3))


def broken(**changes: object) -> Trace:
    first = TraceNode(5, "first", NodeType.COMP)
    return Trace((first, TraceNode(6, "second", NodeType.COMP)._replace(**changes)))


@pytest.mark.parametrize(
    ("trace", "complaint"),
    [
        (broken(id=5), "node 2 (id 5): node 1 has the same id"),
        (broken(id=-1), "node 2 (id -1): it cannot be written: "),
        (broken(name="\ud800"), "node 2 (id 6): it cannot be written: "),
        (broken(duration_micros=1.5), "node 2 (id 6): it cannot be written: "),
        (broken(attributes={"a": [1]}), "node 2 (id 6): attribute 'a' cannot be written: [1] is"),
        (broken(attributes={"a": (1, "x")}), "node 2 (id 6): attribute 'a' cannot be written: a"),
        (broken(attributes={"a": 2**64}), "node 2 (id 6): attribute 'a' cannot be written: "),
        (broken(attributes={"a": (-1, 2**63)}), "node 2 (id 6): attribute 'a' cannot be written"),
        (
            broken(attributes={"a": "text"}, kinds={"a": "string_list"}),
            "node 2 (id 6): attribute 'a' cannot be written: 'text' does not go into string_list",
        ),
        (
            broken(attributes={"a": 1}, kinds={"a": "int8_val"}),
            "node 2 (id 6): attribute 'a' cannot be written: 'int8_val' is not a field",
        ),
        (Trace(broken().nodes, metadata={"a": 1j}), "metadata: attribute 'a' cannot be written"),
        (Trace(broken().nodes, version=4), "metadata: the version cannot be written"),
        (Trace(()), "the trace has no nodes"),
    ],
)
@pytest.mark.parametrize("name", ["w.et", "w.json"])
def test_what_cannot_be_written_is_not(tmp_path, trace, complaint, name) -> None:
    with pytest.raises(DimsweepError) as caught:
        write_trace(tmp_path / name, trace)
    assert str(caught.value).startswith(f"{tmp_path / name}: {complaint}")
    assert not (tmp_path / name).exists()
