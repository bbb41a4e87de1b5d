"""Tables as data, which :mod:`sweeper.columns`, the HTML page and CSV files render."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table whose cells are texts; the first ``n_names`` columns are names, the others numbers.

    The header of a column has its unit.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_names: int = 1
    #: rank of each column; the largest are dropped first if the table is too wide
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table: its header, the text of an item in it, and whether it is shown."""

    head: str
    show: Callable[..., str]
    is_shown: bool = True
    rank: int = 0  # columns of the largest rank, and of those the last, are dropped first


def tabulate(
    title: str, items: Iterable[Any], columns: Iterable[Column], n_names: int = 1
) -> list[Table]:
    """Return a list with one table that has a row for each item; [] without items."""
    shown = [column for column in columns if column.is_shown]
    rows = [tuple(column.show(item) for column in shown) for item in items]
    heads = tuple(column.head for column in shown)
    ranks = tuple(column.rank for column in shown)
    return [Table(title, heads, rows, n_names, ranks)] if rows else []


def name_columns(heads: Sequence[str], values: Callable[[Any], Sequence[str]]) -> list[Column]:
    """Return a column for each of the ``values``, which map an item to one of its names.

    ``heads`` are the headers.
    """
    return [Column(head, lambda item, i=i: values(item)[i]) for i, head in enumerate(heads)]
