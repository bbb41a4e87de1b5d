"""Where in a file something is wrong."""

from dataclasses import dataclass, field
from pathlib import Path

from dimsweep.engine.errors import DimsweepError


@dataclass
class Places:
    """A file, and the byte or line (``unit``) at which each of its messages starts.

    The first message is the metadata, the others are the nodes.  ``starts`` is empty for a trace
    that is being written.
    """

    path: Path
    unit: str = "byte"
    starts: list[int] = field(default_factory=list)

    def of(self, number: int, node_id: int | None = None, name: str = "") -> str:
        """Node ``number`` (from 1) of the file, as a message names it."""
        where = f"{self.path}: node {number}"
        if node_id is not None:
            where += f" (id {node_id}{f', {name!r}' if name else ''})"
        if number < len(self.starts):
            where += f" at {self.unit} {self.starts[number]}"
        return where

    def name(self, error: DimsweepError, number: int, node_id: int | None = None) -> DimsweepError:
        """``error``, said of node ``number`` (from 1) of the file."""
        return DimsweepError(error.what, where=self.of(number, node_id), hint=error.hint)
