"""Expect an error by its place and its code; its words may change."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code


@contextmanager
def refused(
    where: str, code: Code | None, *names: str
) -> Iterator[pytest.ExceptionInfo[DimsweepError]]:
    """Expect a :class:`DimsweepError` whose place ends with ``where`` and that has ``code``.

    The source of a key, as in ``fold (in the override 'fold=1')``, is not part of the place.

    ``None`` skips the code, for errors of rooms that set none yet.

    ``names`` must occur in its message: what the user wrote (a value, a file, a rank), or what
    dimsweep proposes in its place.  They are data, not prose.
    """
    with pytest.raises(DimsweepError) as caught:
        yield caught
    error = caught.value
    places = error.where, error.where.partition(" (in ")[0]
    assert any(each.endswith(where) for each in places), (
        f"place {error.where!r}; expected {where!r}: {error}"
    )
    assert code in (error.code, None), f"code {error.code!r}; expected {code!r}: {error}"
    missing = [name for name in names if name not in str(error)]
    assert not missing, f"the message lacks {missing}: {error}"
