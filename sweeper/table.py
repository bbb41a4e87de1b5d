"""Tables as data: the terminal (:mod:`sweeper.columns`), the page and CSV files render them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of texts; the first ``n_names`` columns are names, the others numbers.

    The head of a column has its unit.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_names: int = 1
    #: rank of each column; the largest are dropped first if the table is too wide
    ranks: Sequence[int] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, the text of an item, and whether the table has it."""

    head: str
    show: Callable[..., str]
    is_shown: bool = True
    rank: int = 0  # columns of the largest rank, and of those the last, are dropped first


def tabulate(
    title: str, items: Iterable[Any], columns: Iterable[Column], n_names: int = 1
) -> list[Table]:
    """Return a table with a row for each item; an empty list without items."""
    shown = [column for column in columns if column.is_shown]
    rows = [tuple(column.show(item) for column in shown) for item in items]
    heads = tuple(column.head for column in shown)
    ranks = tuple(column.rank for column in shown)
    return [Table(title, heads, rows, n_names, ranks)] if rows else []


def name_columns(heads: Sequence[str], values: Callable[[Any], Sequence[str]]) -> list[Column]:
    """Return a column for each of the ``values`` that name an item."""
    return [Column(head, lambda item, i=i: values(item)[i]) for i, head in enumerate(heads)]
