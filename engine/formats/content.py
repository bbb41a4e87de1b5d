"""What is in a file of another tool, plain or compressed."""

import gzip
import zlib
from pathlib import Path

from engine.errors import DimsweepError

_GZIP = b"\x1f\x8b"


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a file, decompressed if it is gzip; ``what`` names it in errors.

    Raises :class:`DimsweepError` for a file that cannot be read, or whose compression is damaged.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the compressed {what} is damaged: {error}"
        raise DimsweepError(message, where=str(path)) from error
    except OSError as error:
        message = f"cannot read the {what}: {error.strerror}"
        raise DimsweepError(message, where=str(path)) from error


def read_text(path: Path, what: str) -> str:
    """As :func:`read_bytes`, decoded from UTF-8."""
    try:
        return read_bytes(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read the {what}: it is not text"
        raise DimsweepError(message, where=str(path)) from error
