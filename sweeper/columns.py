"""Render tables in the terminal; words stay whole unless one is wider than the terminal.

A cell that is too wide continues on further lines.  It breaks between words (a number and its unit
are one word) or inside a long name: after an underline, or at a dot of a key.  If that is not
enough, number columns are dropped, the largest rank first, and named below the table.  Name columns
that would take more than half of the width are joined in one column, each name after its header.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from dimsweep.sweeper.table import Table

# Spaces end a piece, unless they are before a unit; so do joints of a name.
_JOINT = re.compile(r"(?<!\d) +|(?<=\d) +(?![A-Za-z%])|(?<=_)(?=\w)|(?<=[A-Za-z]{2}\.)(?=[A-Za-z])")


def split_line(line: str) -> list[str]:
    """Split a line into pieces between which it may be broken; each keeps its following spaces."""
    ends = [match.end() for match in _JOINT.finditer(line)]
    return [line[a:b] for a, b in zip([0, *ends], [*ends, len(line)], strict=True) if b > a]


def wrap_text(text: str, width: int) -> str:
    """Break a text into lines of at most ``width`` letters, at spaces or inside long names."""
    lines = list[str]()
    for given in text.split("\n"):
        lines.append("")
        for piece in split_line(given):
            if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            *full, rest = chop_cells(lines[-1] + piece.rstrip(), width) or [""]
            lines[-1:] = [*full, rest + piece[len(piece.rstrip()) :]]
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class TerminalTable:
    """A table that is rendered to fit the width of a terminal."""

    table: Table
    look: dict[str, Any] = field(default_factory=dict)  #: arguments of rich's Table

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        names = self.table.n_names
        if self.table.title:
            yield Text(self.table.title, style="table.title")
        heads = [[head] for head in self.table.columns]
        cells = [[row[d] for row in self.table.rows if d < len(row)] for d in range(len(heads))]
        least = [
            _longest_part(split_line, head + own) for head, own in zip(heads, cells, strict=True)
        ]
        room = options.max_width - self._frame_width(console, options, len(least))
        if sum(least) > room:  # names leave half of the width to the numbers
            own = least[:names]
            if names > 1 and sum(own) > room // 2:
                yield from self._join_names().__rich_console__(console, options)
                return
            least[:names] = _share_width(own, own, room // 2)
        # Heads are broken before names and numbers are.
        wanted = [[_longest_part(_keep_line, own) for own in kind] for kind in (cells, heads)]
        shown = self._columns_that_fit(console, options, least)
        room = options.max_width - self._frame_width(console, options, len(shown))
        widths = [least[d] for d in shown]
        for most in wanted:
            widths = _share_width(widths, [most[d] for d in shown], room)
        yield self._block(shown, widths)
        dropped = [d for d in range(len(least)) if d not in shown]
        if dropped:
            heads_dropped = ", ".join(" ".join(self.table.columns[d].split()) for d in dropped)
            text = f"columns not shown for lack of width: {heads_dropped}"
            yield Text(wrap_text(text, options.max_width), style="dim")

    def _join_names(self) -> "TerminalTable":
        """Return the table with all name columns joined in one."""
        table, n = self.table, self.table.n_names
        names = [
            ", ".join(
                f"{head} {name}" for head, name in zip(table.columns[:n], row, strict=False) if name
            )
            for row in table.rows
        ]
        rows = [(name, *row[n:]) for name, row in zip(names, table.rows, strict=True)]
        ranks = [0, *table.ranks[n:]] if table.ranks else ()
        return replace(self, table=Table("", ("", *table.columns[n:]), rows, 1, ranks))

    def _columns_that_fit(
        self, console: Console, options: ConsoleOptions, least: Sequence[int]
    ) -> list[int]:
        """Return the name columns, and as many number columns as fit, at least one."""
        table = self.table
        shown = list(range(len(table.columns)))

        def is_too_wide() -> bool:
            needed = sum(least[d] for d in shown) + self._frame_width(console, options, len(shown))
            return needed > options.max_width

        while is_too_wide() and len(shown) > table.n_names + 1:
            numbers = shown[table.n_names :]
            shown.remove(max(numbers, key=lambda d: (table.ranks[d] if table.ranks else 0, d)))
        return shown

    def _frame_width(self, console: Console, options: ConsoleOptions, n: int) -> int:
        """Return the width, in letters, of the rules and spaces around ``n`` columns."""
        empty = TerminalTable(Table("", [""] * n, ()), self.look)._block(range(n), [1] * n)
        return Measurement.get(console, options.update(width=10_000), empty).maximum - n

    def _block(self, shown: Sequence[int], widths: Sequence[int]) -> RichTable:
        """Render the table with the columns numbered ``shown``; ``widths`` are their widths."""
        made = RichTable(show_header=any(self.table.columns), **self.look)
        for d, width in zip(shown, widths, strict=True):
            # Texts are Text, since brackets in a name are not markup.
            head = Text(wrap_text(self.table.columns[d], width))
            made.add_column(
                head, justify="left" if d < self.table.n_names else "right", width=width
            )
        for row in self.table.rows:
            cells = [row[d] if d < len(row) else "" for d in shown]
            made.add_row(*map(Text, map(wrap_text, cells, widths)))
        return made


def _keep_line(line: str) -> list[str]:
    return [line]


def _longest_part(parts: Callable[[str], list[str]], texts: Sequence[str]) -> int:
    """Return the width of the widest unbreakable piece in ``texts``, at least 1."""
    found = [part for text in texts for line in text.split("\n") for part in parts(line)]
    return max((cell_len(part.rstrip()) for part in found), default=1) or 1


def _share_width(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Return column widths with a total of ``room``, between ``least`` and ``most`` if possible.

    The narrowest columns grow first; the widest shrink first.
    """
    widths = list(least)
    while sum(widths) > room and max(widths, default=0) > 1:
        widths[widths.index(max(widths))] -= 1
    while sum(widths) < room:
        growing = [d for d in range(len(widths)) if widths[d] < most[d]]
        if not growing:
            break
        widths[min(growing, key=widths.__getitem__)] += 1
    return widths
