"""What is in a file of another tool, plain or compressed."""

import gzip
import zlib
from pathlib import Path

from dimsweep.engine.errors import DimsweepError

_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 32  # bytes of an inflated file, which is held in memory as a whole
_PIECE = 1 << 20  # bytes inflated at a time


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
    except OSError as error:
        message = f"cannot read the {what}: {error.strerror}"
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


def read_text(path: Path, what: str) -> str:
    """As :func:`read_bytes`, decoded from UTF-8."""
    try:
        return read_bytes(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read the {what}: it is not text"
        raise DimsweepError(message, where=str(path)) from error
