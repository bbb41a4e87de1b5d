"""Files that a command writes where the user says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dimsweep.engine import accessing


def write_file(path: str | Path, what: str, content: bytes) -> Path:
    """Write a file; ``what`` names its content in an error, such as "the table".

    Raises :class:`DimsweepError` that names the file if it cannot be written.
    """
    file = Path(path)
    with writing_file(file, what) as opened:
        opened.write(content)
    return file


@contextmanager
def writing_file(path: str | Path, what: str) -> Iterator[BinaryIO]:
    """Open a file for writing in pieces; raises :class:`DimsweepError` as :func:`write_file`."""
    with accessing(path, f"{what} cannot be written"), Path(path).open("wb") as file:
        yield file
