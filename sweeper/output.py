"""Files that a command writes where the user says."""

from pathlib import Path

from engine import DimsweepError


def write_file(path: str | Path, what: str, content: bytes) -> Path:
    """Write ``content``, which is ``what`` (plural or with an article) in the error's words.

    Raises :class:`DimsweepError` that names the file if it cannot be written.
    """
    file = Path(path)
    try:
        file.write_bytes(content)
    except OSError as error:
        problem = f"{what} cannot be written: {error.strerror}"
        raise DimsweepError(problem, where=str(file)) from error
    return file
