"""What is in a file of another tool, plain or compressed."""

import codecs
import gzip
import zlib
from pathlib import Path

from dimsweep.engine.errors import DimsweepError

_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 32  # bytes of an inflated file, which is held in memory as a whole
_PIECE = 1 << 20  # bytes inflated at a time
_MARKS = {  # byte order marks, which Excel and PowerShell write, and the encoding that each means
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a file, decompressed if it is gzip; ``what`` names it in errors.

    Raises :class:`DimsweepError` for a file that cannot be read, whose compression is damaged, or
    that inflates to more than 4 GiB.
    """
    try:
        with path.open("rb") as file:
            if file.peek(len(_GZIP)).startswith(_GZIP):
                return _inflated(gzip.GzipFile(fileobj=file), path, what)
            return file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the compressed {what} is damaged: {error}"
        raise DimsweepError(message, where=str(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        message = f"cannot read the {what}: {getattr(error, 'strerror', None) or error}"
        raise DimsweepError(message, where=str(path)) from error
    except MemoryError:
        message = f"there is not enough memory for the {what}"
        raise DimsweepError(message, where=str(path)) from None


def _inflated(file: gzip.GzipFile, path: Path, what: str) -> bytes:
    """All of it, piece by piece: asked for all at once, Python takes memory for the largest."""
    pieces, n_bytes = [], 0
    while piece := file.read(_PIECE):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > _LARGEST:
            message = f"the compressed {what} inflates to more than {_LARGEST / (1 << 30):g} GiB"
            raise DimsweepError(message, where=str(path))
    return b"".join(pieces)


def read_head(path: Path, n_bytes: int) -> bytes:
    """Return the first bytes of a file, plain or gzip, without a byte order mark of UTF-8; nothing
    of a file that cannot be read."""
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(_GZIP)).startswith(_GZIP)
            head = (gzip.GzipFile(fileobj=file) if is_gzip else file).read(n_bytes)
    except (OSError, ValueError, EOFError, zlib.error):
        return b""
    return head.removeprefix(codecs.BOM_UTF8)


def read_text(path: Path, what: str) -> str:
    """Return the text of a file, plain or gzip, without a byte order mark.

    The encoding is UTF-8, or UTF-16 if a mark says so.  Raises :class:`DimsweepError` as
    :func:`read_bytes` does, and for a file that is not text.
    """
    content = read_bytes(path, what)
    try:
        return decode_text(content)
    except UnicodeDecodeError as error:
        message = f"cannot read the {what}: it is not text"
        raise DimsweepError(message, where=str(path)) from error


def decode_text(content: bytes, errors: str = "strict") -> str:
    """Decode UTF-8, or the encoding of a byte order mark, which is left out.

    Raises :class:`UnicodeDecodeError` for other bytes, unless ``errors`` says otherwise.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors)
