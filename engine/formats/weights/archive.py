"""Archives of weights, and how large these may be: a small file can ask for more memory than there
is."""

import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dimsweep.engine.errors import DimsweepError

MOST_BYTES = 4 << 30
# Damaged, encrypted, compressed by what zipfile does not know, or an array's header that is none.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError),
    *(ValueError, tokenize.TokenError),
)


def check_size(n_bytes: int, where: str = "") -> None:
    """Raises :class:`DimsweepError` for more than :data:`MOST_BYTES`."""
    if n_bytes > MOST_BYTES:
        what = f"{n_bytes / 2**30:.3g} GiB of weights, and at most {MOST_BYTES >> 30} GiB are read"
        raise DimsweepError(what, where=where, hint="fewer layers, or narrower numbers")


@contextmanager
def opened(path: Path, what: str, hint: str = "") -> Iterator[zipfile.ZipFile]:
    """The archive in a file that is said to be a ``what``.

    Raises :class:`DimsweepError` for one that is damaged, or larger than :data:`MOST_BYTES` when it
    is unpacked; within it, what reading the archive's content says of damages is told like that.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(sum(entry.file_size for entry in archive.infolist()))
            yield archive
    except _DAMAGED as error:
        told = f"this is no {what}: {error or type(error).__name__}"
        raise DimsweepError(told, hint=hint) from error
