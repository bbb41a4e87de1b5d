"""Any trace is read as it was written, and no damage is worse than an error."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import (
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    read_trace,
    write_trace,
)
from tests.support.examples import examples


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


SCALARS: dict[str, st.SearchStrategy[object]] = {
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "bool": st.booleans(),
    "string": st.text(),
    "bytes": st.binary(),
    **{f"{kind}{bits}": integers(bits, "u" not in kind and kind != "fixed")
       for kind in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64)},
}  # fmt: skip
UINT64 = integers(64, signed=False)


@st.composite
def attributes(draw: st.DrawFn) -> tuple[dict[str, object], dict[str, str]]:
    """Values, and fields for them."""
    values: dict[str, object] = {}
    kinds: dict[str, str] = {}
    for name in draw(st.sets(st.text(max_size=5), max_size=4)):
        scalar = draw(st.sampled_from(sorted(SCALARS)))
        if draw(st.booleans()):
            values[name] = draw(SCALARS[scalar])
            kinds[name] = f"{scalar}_val"
        else:
            values[name] = tuple(draw(st.lists(SCALARS[scalar], max_size=3)))
            kinds[name] = f"{scalar}_list"
    return values, kinds


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Nodes that wait for others, in any order."""
    ids = draw(st.lists(UINT64, min_size=1, max_size=5, unique=True))
    tensors = st.none() | st.builds(TensorInfo, *4 * [st.text(max_size=3)])
    nodes = [
        TraceNode(
            node_id,
            draw(st.text()),
            draw(st.sampled_from(NodeType)),
            tuple(draw(st.lists(st.sampled_from(ids[:i]), max_size=3)) if i else ()),
            tuple(draw(st.lists(st.sampled_from(ids[:i]), max_size=3)) if i else ()),
            draw(UINT64),
            draw(UINT64),
            *draw(attributes()),
            draw(tensors),
            draw(tensors),
        )
        for i, node_id in enumerate(ids)
    ]
    return Trace(tuple(draw(st.permutations(nodes))), draw(st.text()), *draw(attributes()))


def plain(trace: Trace) -> list[object]:
    """All but the fields that values were in; their representation tells 1 from True and 1.0."""
    nodes = [repr(node._replace(kinds={})) for node in trace.nodes]
    return [trace.version, repr(trace.metadata), *nodes]


@pytest.mark.parametrize("name", ["w.et", "w.json"])
@given(trace=traces(), compress=st.booleans())
def test_a_trace_is_read_as_it_was_written(tmp_path_factory, name, trace, compress) -> None:
    file = tmp_path_factory.getbasetemp() / name
    write_trace(file, trace, compress=compress)
    written = file.read_bytes()
    found = read_trace(file)
    assert plain(found) == plain(trace)
    write_trace(file, found, compress=compress)
    assert file.read_bytes() == written


NODES = (
    TraceNode(3, "load", NodeType.MEM_LOAD, duration_micros=5, attributes={"tensor_size": 2**40}),
    TraceNode(230, "all é", NodeType.COMM_COLL, (3,), (4,), 7, 0, {"pg_name": "1", "dims": (1,)}),
    TraceNode(4, "mm", NodeType.COMP, attributes={"num_ops": 9}, inputs=TensorInfo("[1]")),
)
SAMPLE = Trace(NODES, metadata={"schema": "x"})


@st.composite
def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes changed, cut out, inserted, or doubled; the file cut short."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "cut", "insert", "double", "end"])):
            case "change":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + draw(st.integers(1, 30))]
            case "insert":
                data[at:at] = draw(st.binary(max_size=12))
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 60))]
            case "end":
                del data[at:]
    return bytes(data)


def read_or_refuse(file: Path, data: bytes) -> None:
    """Reads the bytes, and what it made of them once more; or says where they are wrong."""
    file.write_bytes(data)
    try:
        trace = read_trace(file)
    except DimsweepError as error:
        assert error.where.startswith(str(file)) and error.problem
        return
    write_trace(file, trace)
    assert plain(read_trace(file)) == plain(trace)


@pytest.mark.parametrize("name", ["w.et", "w.json", "w.et.gz"])
@examples(100)
@given(data=st.data())
def test_damage_is_refused_or_harmless(tmp_path_factory, name, data) -> None:
    file = tmp_path_factory.getbasetemp() / name
    write_trace(file, SAMPLE, compress=name.endswith(".gz"))
    read_or_refuse(file, data.draw(damage(file.read_bytes())))


@given(st.binary() | st.text().map(str.encode) | st.binary().map(gzip.compress))
def test_anything_else_is_refused_or_harmless(tmp_path_factory, data) -> None:
    for name in ("w.et", "w.json"):
        read_or_refuse(tmp_path_factory.getbasetemp() / name, data)


def test_no_bit_of_a_trace_is_passed_over(tmp_path) -> None:
    """There is no checksum: a number may become another one, but nothing is passed over."""
    file = tmp_path / "w.et"
    write_trace(file, SAMPLE)
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        try:
            trace = read_trace(file)
        except DimsweepError:
            continue
        assert trace != SAMPLE
