"""Reading and writing the files of traces."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dimsweep.engine.collector import no_collector
from dimsweep.engine.errors import DimsweepError, accessing, within
from dimsweep.engine.formats.chakra import json_form, stream
from dimsweep.engine.formats.chakra.decode import Attributes, Decoder, decode_metadata
from dimsweep.engine.formats.chakra.encode import encode_metadata, encode_node
from dimsweep.engine.formats.chakra.graph import check
from dimsweep.engine.formats.chakra.place import Places
from dimsweep.engine.formats.chakra.trace import Trace, TraceNode
from dimsweep.engine.formats.content import read_bytes

FORMS = ("et", "json", "et.gz", "json.gz")  # how the names of traces end
_HINT = (
    "a trace is a stream of length-delimited protobuf messages (Chakra's schema 0.0.4), "
    "or what chakra_jsonizer writes, in a file called .json"
)


class Scanned(NamedTuple):
    """A trace as far as it could be read, unchecked; ``fault`` is what stopped the reading, if
    anything did."""

    trace: Trace
    places: Places
    fault: DimsweepError | None


@no_collector()
def read_trace(path: Path | str) -> Trace:
    """The trace in a file, plain or gzip; as JSON if it is called ``.json`` or ``.json.gz``.

    Raises :class:`DimsweepError` naming file, node and byte (JSON: line) for anything malformed.
    """
    return _checked(_scan(Path(path), Decoder().node))


@no_collector()
def read_traces(paths: Iterable[Path | str]) -> list[Trace]:
    """The traces of several ranks, in their order.

    A node that several ranks have in common is decoded once, and they share the object.
    Raises :class:`DimsweepError` as :func:`read_trace` does.
    """
    decode = cache(Decoder().node)
    return [_checked(_scan(Path(path), decode)) for path in paths]


@no_collector()
def scan_traces(paths: Iterable[Path | str]) -> list[Scanned]:
    """The traces of several ranks with whatever is wrong in them, for a linter.

    Raises :class:`DimsweepError` for a file that cannot be read, or is no trace from the start.
    """
    decode = cache(Decoder().node)
    return [_scan(Path(path), decode) for path in paths]


def write_trace(path: Path | str, trace: Trace, *, compress: bool = False) -> None:
    """Write what :func:`read_trace` reads; as JSON if called ``.json`` or ``.json.gz``.

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


def _form(path: Path) -> Any:
    is_json = path.name.removesuffix(".gz").endswith(".json")
    return json_form if is_json else stream


def _checked(scanned: Scanned) -> Trace:
    if scanned.fault is not None:
        raise scanned.fault
    check(scanned.trace.nodes, scanned.places)
    return scanned.trace


def _scan(path: Path, decode: Callable[[bytes], TraceNode]) -> Scanned:
    data = read_bytes(path, "trace")
    if not data.strip():
        raise DimsweepError("the trace is empty", where=str(path))
    form = _form(path)
    places = Places(path, form.UNIT)
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
            named = isinstance(error, json_form.OtherFileError)
            what = f"this is not a Chakra trace: {error.what}"
            raise DimsweepError(
                what, where=str(path), hint=error.hint if named else _HINT
            ) from error
        fault = places.name(error, len(nodes) + 1)
    version, (metadata, kinds) = header
    return Scanned(Trace(tuple(nodes), version, metadata, kinds), places, fault)


def _messages(trace: Trace, places: Places) -> Iterator[Any]:
    with within(f"{places.path}: metadata"):
        yield encode_metadata(trace)
    for number, node in enumerate(trace.nodes, 1):
        try:
            yield encode_node(node)
        except DimsweepError as error:
            raise places.name(error, number, node.id) from error
