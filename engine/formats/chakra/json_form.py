"""The JSON form: protobuf's JSON of one message after the other, as chakra_jsonizer writes it.

A list of the same objects is read as well.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToJson, ParseDict, ParseError

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import schema

UNIT = "line"  # places in a file are counted in these
_SPACE = re.compile(r"[ \t\r\n]*")


class OtherFileError(DimsweepError):
    """A JSON file that is known not to be a trace, with what to do instead."""


def split(data: bytes, starts: list[int]) -> Iterator[bytes]:
    """The messages in ``data``, as in the binary form; notes in ``starts`` the line of each."""
    kind = schema.GlobalMetadata
    try:
        for value in _values(data.decode("utf-8-sig"), starts):
            if not isinstance(value, dict):
                raise DimsweepError("it is not a JSON object")
            _refuse_others(value)
            message = ParseDict(value, kind())
            yield message.SerializeToString()
            kind = schema.Node
    except RecursionError as error:
        raise DimsweepError("it is nested too deeply") from error
    except (ParseError, ValueError, ArithmeticError) as error:
        raise DimsweepError(str(error).partition("\n")[0]) from error


def _refuse_others(value: dict[str, Any]) -> None:
    """Raise :class:`OtherFileError` for the other JSON files that PyTorch writes of a run."""
    if "traceEvents" in value:
        raise OtherFileError(
            "it is a profile (Kineto's, or another of Chrome's trace events), which says when "
            "things happened but not what waited for what",
            hint="record the same run with PyTorch's ExecutionTraceObserver, too, as "
            "profile(..., execution_trace_observer=observer), and convert both: "
            "dimsweep trace convert et.json w.et --kineto profile.json",
        )
    if "nodes" in value and "chakra" in str(value.get("schema")):
        raise OtherFileError(
            "it is PyTorch's execution trace",
            hint="convert it first: dimsweep trace convert et.json w.et --kineto profile.json",
        )


def _values(text: str, starts: list[int]) -> Iterator[Any]:
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


def join(messages: Iterable[Any]) -> bytes:
    """The messages as JSON objects, one after the other."""
    return "".join(f"{MessageToJson(message)}\n" for message in messages).encode()
