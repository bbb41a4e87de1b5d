"""How large weights may be: a small file can ask for more memory than there is."""

import zipfile

from engine.errors import DimsweepError

MOST_BYTES = 4 << 30


def check_size(n_bytes: int, where: str = "") -> None:
    """Raises :class:`DimsweepError` for more than :data:`MOST_BYTES`."""
    if n_bytes > MOST_BYTES:
        what = f"{n_bytes / 2**30:.3g} GiB of weights, and at most {MOST_BYTES >> 30} GiB are read"
        raise DimsweepError(what, where=where, hint="fewer layers, or narrower numbers")


def check_archive(archive: zipfile.ZipFile) -> None:
    """The same for what an archive becomes when it is unpacked."""
    check_size(sum(entry.file_size for entry in archive.infolist()))
