"""Reading and writing the files of traces."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engine.collector import no_collector
from engine.errors import DimsweepError
from engine.formats.chakra import json_form, stream
from engine.formats.chakra.decode import Attributes, Decoder, decode_metadata
from engine.formats.chakra.encode import encode_metadata, encode_node
from engine.formats.chakra.graph import check
from engine.formats.chakra.place import Places
from engine.formats.chakra.trace import Trace, TraceNode

_GZIP = b"\x1f\x8b\x08"
_HINT = (
    "a trace is a stream of length-delimited protobuf messages (Chakra's schema 0.0.4), "
    "or what chakra_jsonizer writes, in a file called .json"
)


@no_collector()
def read_trace(path: Path | str) -> Trace:
    """The trace in a file, plain or gzip; as JSON if it is called ``.json`` or ``.json.gz``.

    Raises :class:`DimsweepError` naming file, node and byte (JSON: line) for anything malformed.
    """
    return _read(Path(path), Decoder().node)


@no_collector()
def read_traces(paths: Iterable[Path | str]) -> list[Trace]:
    """The traces of several ranks: nodes they have in common are decoded, and kept, only once."""
    decode = cache(Decoder().node)
    return [_read(Path(path), decode) for path in paths]


def write_trace(path: Path | str, trace: Trace, *, compress: bool = False) -> None:
    """Writes what :func:`read_trace` reads; as JSON if called ``.json`` or ``.json.gz``."""
    path = Path(path)
    places = Places(path)
    check(trace.nodes, places)
    data = _form(path).join(_messages(trace, places))
    if compress:
        data = gzip.compress(data, mtime=0)
    try:
        path.write_bytes(data)
    except OSError as error:
        what = f"cannot write the trace: {error.strerror}"
        raise DimsweepError(what, where=str(path)) from error


def _form(path: Path) -> Any:
    is_json = path.name.removesuffix(".gz").endswith(".json")
    return json_form if is_json else stream


def _read(path: Path, decode: Callable[[bytes], TraceNode]) -> Trace:
    data = _content(path)
    form = _form(path)
    places = Places(path, form.UNIT)
    header: tuple[str, Attributes] | None = None
    nodes: list[TraceNode] = []
    try:
        messages = form.split(data, places.starts)
        header = decode_metadata(next(messages, b""))
        for message in messages:
            nodes.append(decode(message))
    except DimsweepError as error:
        if header is not None:
            raise places.name(error, len(nodes) + 1) from error
        what = f"this is not a Chakra trace: {error.what}"
        raise DimsweepError(what, where=str(path), hint=_HINT) from error
    check(nodes, places)
    version, (metadata, kinds) = header
    return Trace(tuple(nodes), version, metadata, kinds)


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        what = f"cannot read the trace: {error.strerror}"
        raise DimsweepError(what, where=str(path)) from error
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            what = f"the compressed trace is damaged: {error}"
            raise DimsweepError(what, where=str(path)) from error
    if not data.strip():
        raise DimsweepError("the trace is empty", where=str(path))
    return data


def _messages(trace: Trace, places: Places) -> Iterator[Any]:
    try:
        yield encode_metadata(trace)
    except DimsweepError as error:
        raise error.at(f"{places.path}: metadata") from error
    for number, node in enumerate(trace.nodes, 1):
        try:
            yield encode_node(node)
        except DimsweepError as error:
            raise places.name(error, number, node.id) from error
