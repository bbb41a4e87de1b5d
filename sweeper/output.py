"""Write the files that a command saves at a path given by the user."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dimsweep.engine import accessing


def write_file(path: str | Path, what: str, content: bytes) -> Path:
    """Write ``content`` to a file; ``what`` describes it in errors, such as "the table".

    Raises :class:`DimsweepError` that names the file if it cannot be written.
    """
    file = Path(path)
    with writing_file(file, what) as opened:
        opened.write(content)
    return file


@contextmanager
def writing_file(path: str | Path, what: str) -> Iterator[BinaryIO]:
    """Return a context with a file that is open for writing in pieces.

    Raises :class:`DimsweepError` as :func:`write_file` does.
    """
    with accessing(path, f"{what} cannot be written"), Path(path).open("wb") as file:
        yield file
