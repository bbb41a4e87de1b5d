"""Reading a study's rows."""

from collections.abc import Sequence

import pyarrow as pa

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.stored import Stored


def load(folder: str | Place, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of the study in ``folder``, or some ``columns`` of them, ordered by cell and trial,
    each once; memory is taken by what is asked for, and 16 bytes a row.

    Safe while a sweep is writing: no load returns fewer rows than an earlier one.  Raises
    :class:`DimsweepError` if there is no study or no such column, or if files of it are damaged; it
    names them.
    """
    return Stored(folder, ahead=columns).table(columns)
