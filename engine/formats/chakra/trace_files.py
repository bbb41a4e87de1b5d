"""The files of traces, in two forms: Chakra's binary stream, and protobuf's JSON of it.

The binary form has one message after the other, each behind its length (a varint): the metadata of
the trace, then its nodes.  The JSON form has the same messages as JSON objects, as chakra_jsonizer
writes them; a list of these objects is read as well.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToJson, ParseDict, ParseError

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError, accessing, naming_place
from dimsweep.engine.formats.chakra.protobuf import (
    Attributes,
    Decoder,
    GlobalMetadata,
    Node,
    decode_metadata,
    encode_metadata,
    encode_node,
)
from dimsweep.engine.formats.chakra.trace import Places, Trace, TraceNode, check
from dimsweep.engine.formats.reading import read_bytes

FORMS = ("et", "json", "et.gz", "json.gz")  # how the names of traces end
_HINT = (
    "a trace is a stream of length-delimited protobuf messages (Chakra's schema 0.0.4), "
    "or a .json file of chakra_jsonizer"
)


class Scanned(NamedTuple):
    """A trace that was read without checks, and the first error of its file, if any."""

    trace: Trace
    places: Places
    fault: DimsweepError | None  # the error that stopped the reading


@collector_paused()
def read_trace(path: Path | str) -> Trace:
    """Read the trace in a file, plain or gzip.

    A file called ``.json`` or ``.json.gz`` is JSON. Raises :class:`DimsweepError` naming file, node
    and byte (JSON: line) for anything malformed.
    """
    return _checked(_scan(Path(path), Decoder().node))


@collector_paused()
def read_traces(paths: Iterable[Path | str]) -> list[Trace]:
    """Read the traces of several ranks, in the order of ``paths``.

    Ranks share the object of a node that several have in common, which is decoded once. Raises
    :class:`DimsweepError` as :func:`read_trace` does.
    """
    decode = cache(Decoder().node)
    return [_checked(_scan(Path(path), decode)) for path in paths]


@collector_paused()
def scan_traces(paths: Iterable[Path | str]) -> list[Scanned]:
    """Read the traces of several ranks with all their faults, for a linter.

    Raises :class:`DimsweepError` for a file that cannot be read, or is not a trace from the start.
    """
    decode = cache(Decoder().node)
    return [_scan(Path(path), decode) for path in paths]


def write_trace(path: Path | str, trace: Trace, *, compress: bool = False) -> None:
    """Write a trace for :func:`read_trace`; as JSON if called ``.json`` or ``.json.gz``.

    Raises :class:`DimsweepError` for a trace that :func:`read_trace` would refuse, for values that
    the schema has no field for, and for a file that cannot be written.
    """
    path = Path(path)
    places = Places(path)
    check(trace.nodes, places)
    data = _form(path).join(_messages(trace, places))
    if compress:
        data = gzip.compress(data, mtime=0)
    with accessing(path, "cannot write the trace"):
        path.write_bytes(data)


def _form(path: Path) -> "_Form":
    return _JSON if path.name.removesuffix(".gz").endswith(".json") else _STREAM


def _checked(scanned: Scanned) -> Trace:
    if scanned.fault is not None:
        raise scanned.fault
    check(scanned.trace.nodes, scanned.places)
    return scanned.trace


def _scan(path: Path, decode: Callable[[bytes], TraceNode]) -> Scanned:
    data = read_bytes(path, "trace")
    if not data.strip():
        raise DimsweepError("the trace is empty", where=str(path), code="missing")
    form = _form(path)
    places = Places(path, form.unit)
    header: tuple[str, Attributes] | None = None
    nodes: list[TraceNode] = []
    fault: DimsweepError | None = None
    try:
        messages = form.split(data, places.starts)
        header = decode_metadata(next(messages, b""))
        for message in messages:
            nodes.append(decode(message))
    except DimsweepError as error:
        if header is None:
            named = isinstance(error, _OtherFileError)
            problem = f"this is not a Chakra trace: {error.problem}"
            raise DimsweepError(
                problem, where=str(path), hint=error.hint if named else _HINT, code="bad-syntax"
            ) from error
        fault = places.name(error, len(nodes) + 1)
    version, (metadata, kinds) = header
    return Scanned(Trace(tuple(nodes), version, metadata, kinds), places, fault)


def _messages(trace: Trace, places: Places) -> Iterator[Any]:
    with naming_place(f"{places.path}: metadata"):
        yield encode_metadata(trace)
    for number, node in enumerate(trace.nodes, 1):
        try:
            yield encode_node(node)
        except DimsweepError as error:
            raise places.name(error, number, node.id) from error


# --- forms --------------------------------------------------------------------------------------

# A node with only default fields encodes to no bytes, at which Chakra's own tools stop reading.
# These bytes are the same node with its id (0) written out.
_EMPTY_NODE = b"\x08\x00"


def _split_stream(data: bytes, starts: list[int]) -> Iterator[bytes]:
    """Yield each message in ``data``, and append its first byte's position to ``starts``."""
    position = 0
    end = len(data)
    while position < end:
        starts.append(position)
        length = data[position]
        position += 1
        if length > 127:
            length, position = _length(data, position - 1)
        if not length and len(starts) > 1:
            raise DimsweepError(
                "it is empty; Chakra's own tools would stop reading here", code="damaged"
            )
        following = position + length
        if following > end:
            there = end - position
            raise DimsweepError(f"the file ends with {there} of its {length} bytes", code="damaged")
        yield data[position:following]
        position = following


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Return the length of a message, if it takes several bytes, and the message's position."""
    length = 0
    # Five bytes hold 35 bits; protobuf's messages end at 31.
    for i, byte in enumerate(data[position : position + 5]):
        length |= (byte & 127) << 7 * i
        if byte < 128:
            return length, position + i + 1
    raise DimsweepError("it does not begin with the length of a message", code="bad-syntax")


def join_stream(messages: Iterable[Any]) -> bytes:
    """Return a binary trace: the messages, metadata first, each after its length."""
    metadata, *nodes = messages
    return b"".join((delimited(metadata.SerializeToString()), *map(node_bytes, nodes)))


def node_bytes(message: Any) -> bytes:
    """Return a node message in binary form, after its length."""
    return delimited(message.SerializeToString() or _EMPTY_NODE)


def delimited(raw: bytes) -> bytes:
    """Return a message's bytes after its length, as a varint."""
    length = bytearray()
    rest = len(raw)
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + raw


_SPACE = re.compile(r"[ \t\r\n]*")


class _OtherFileError(DimsweepError):
    """A JSON file of another known format, with a hint on what to do."""


def _split_json(data: bytes, starts: list[int]) -> Iterator[bytes]:
    """Yield each JSON message in ``data`` in binary form, and append its line to ``starts``."""
    kind = GlobalMetadata
    try:
        for value in _json_values(data.decode("utf-8-sig"), starts):
            if not isinstance(value, dict):
                raise DimsweepError("it is not a JSON object", code="bad-syntax")
            _refuse_others(value)
            message = ParseDict(value, kind())
            yield message.SerializeToString()
            kind = Node
    except RecursionError as error:
        raise DimsweepError("it is nested too deeply", code="bad-syntax") from error
    except (ParseError, ValueError, ArithmeticError) as error:
        raise DimsweepError(str(error).partition("\n")[0], code="bad-syntax") from error


def _refuse_others(value: dict[str, Any]) -> None:
    """Raise :class:`_OtherFileError` for PyTorch's other JSON files, such as profiles."""
    if "traceEvents" in value:
        raise _OtherFileError(
            "it is a profile (Kineto's, or another of Chrome's trace events), which says when "
            "things happened but not what waited for what",
            hint="record the same run with PyTorch's ExecutionTraceObserver, too, as "
            "profile(..., execution_trace_observer=observer), and convert both: "
            "dimsweep trace convert et.json w.et --kineto profile.json",
        )
    if "nodes" in value and "chakra" in str(value.get("schema")):
        raise _OtherFileError(
            "it is PyTorch's execution trace",
            hint="convert it first: dimsweep trace convert et.json w.et --kineto profile.json",
        )


def _json_values(text: str, starts: list[int]) -> Iterator[Any]:
    position = _after_space(text, 0)
    if text.startswith("[", position):
        yield from json.loads(text)
        return
    read = json.JSONDecoder().raw_decode
    line, counted = 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        starts.append(line)
        value, position = read(text, position)
        yield value
        position = _after_space(text, position)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _join_json(messages: Iterable[Any]) -> bytes:
    """Return a JSON trace: the messages as consecutive JSON objects."""
    return "".join(f"{MessageToJson(message)}\n" for message in messages).encode()


class _Form(NamedTuple):
    """A file form (binary or JSON): functions that split a file into messages and join them.

    ``split`` yields messages in binary form and records where each starts, counted in ``unit``.
    """

    unit: str
    split: Callable[[bytes, list[int]], Iterator[bytes]]
    join: Callable[[Iterable[Any]], bytes]


_STREAM = _Form("byte", _split_stream, join_stream)
_JSON = _Form("line", _split_json, _join_json)
