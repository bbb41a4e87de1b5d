"""The binary form: messages one after the other, each behind its length (a varint)."""

from collections.abc import Iterable, Iterator
from typing import Any

from dimsweep.engine.errors import DimsweepError

UNIT = "byte"  # places in a file are counted in these

# A node whose every field has its default is no bytes at all, and there Chakra's own tools stop
# reading.  This is the same node, its id (0) spelt out.
_EMPTY_NODE = b"\x08\x00"


def split(data: bytes, starts: list[int]) -> Iterator[bytes]:
    """The messages in ``data``; notes in ``starts`` the byte where each starts."""
    position = 0
    end = len(data)
    while position < end:
        starts.append(position)
        length = data[position]
        position += 1
        if length > 127:
            length, position = _length(data, position - 1)
        if not length and len(starts) > 1:
            raise DimsweepError("it is empty; Chakra's own tools would stop reading here")
        following = position + length
        if following > end:
            there = end - position
            raise DimsweepError(f"the file ends with {there} of its {length} bytes")
        yield data[position:following]
        position = following


def _length(data: bytes, position: int) -> tuple[int, int]:
    """A length of more than one byte, and where its message begins."""
    length = 0
    # Five bytes hold 35 bits; protobuf's messages end at 31.
    for i, byte in enumerate(data[position : position + 5]):
        length |= (byte & 127) << 7 * i
        if byte < 128:
            return length, position + i + 1
    raise DimsweepError("it does not begin with the length of a message")


def join(messages: Iterable[Any]) -> bytes:
    """The messages, the metadata and then nodes, each behind its length."""
    metadata, *nodes = messages
    return b"".join((delimited(metadata.SerializeToString()), *map(node, nodes)))


def node(message: Any) -> bytes:
    """A node behind its length."""
    return delimited(message.SerializeToString() or _EMPTY_NODE)


def delimited(raw: bytes) -> bytes:
    """A message behind its length."""
    length = bytearray()
    rest = len(raw)
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + raw
