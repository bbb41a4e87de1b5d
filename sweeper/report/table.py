"""Tables of a report as data, which the terminal, the page and the board render."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of texts; the first ``n_names`` columns are names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_names: int = 1
