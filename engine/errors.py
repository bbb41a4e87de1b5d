"""The one error a user of dimsweep is meant to read."""

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class DimsweepError(Exception):
    """Something the user can mend: what is wrong, where, and what would be right.

    ``where`` names the place in the user's own terms (a configuration key, a file and line, a
    rank); ``hint`` says what would be right.  Both may be added later by a caller that knows more
    (see :meth:`at`), so deep code need not know which file its input came from.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def at(self, prefix: str) -> "DimsweepError":
        """The same error with ``prefix`` put in front of its place (``topology`` + ``size``)."""
        joint = "" if not self.where or self.where.startswith("[") else "."
        return type(self)(self.what, where=f"{prefix}{joint}{self.where}", hint=self.hint)

    def within(self, file: object) -> "DimsweepError":
        """The same error, whose place is one within a ``file``: ``a.yaml: topology``."""
        place = f"{file}: {self.where}" if self.where else str(file)
        return type(self)(self.what, where=place, hint=self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their positional arguments; keep the place and the hint on the way
        # back from a worker process.
        return (_rebuild, (type(self), self.what, self.where, self.hint))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


class InfeasibleError(DimsweepError):
    """A design that cannot be: nothing is wrong with how it was written down."""


class TooManyError(DimsweepError):
    """More messages or packets than may be simulated: the design can be, its time is not known."""


def check_least(of: object, least: float, *keys: str) -> None:
    """Raise :class:`DimsweepError` naming the attribute among ``keys`` that is below ``least``."""
    for key in keys:
        if not getattr(of, key) >= least:
            raise DimsweepError(f"{getattr(of, key)}; it must be {least} or more", where=key)


@contextmanager
def at(place: str) -> Iterator[None]:
    """Errors from within get ``place`` put in front of theirs (see :meth:`DimsweepError.at`)."""
    try:
        yield
    except DimsweepError as error:
        raise error.at(place) from error.__cause__


@contextmanager
def within(file: object) -> Iterator[None]:
    """Errors from within have their place in the ``file`` (see :meth:`DimsweepError.within`)."""
    try:
        yield
    except DimsweepError as error:
        raise error.within(file) from error.__cause__


@contextmanager
def accessing(file: object, failed: str, *others: type[Exception]) -> Iterator[None]:
    """Errors of the system from within, and ``others``, are told of the ``file``: what ``failed``,
    such as "it cannot be read", and why."""
    raised: tuple[type[Exception], ...] = OSError, *others
    try:
        yield
    except raised as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        raise DimsweepError(f"{failed}: {reason}", where=str(file)) from error


@contextmanager
def needing(package: str, otherwise: DimsweepError) -> Iterator[None]:
    """Within it, an optional ``package`` is imported: where it is missing, ``otherwise`` is raised.

    One that is there and broken raises what it raises: to install it again need not mend it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise otherwise from error


def told_defect(error: BaseException) -> str:
    """A defect of ours or of a library's in a line: its type, its text, and where we were."""
    frames = [
        (frame.f_globals.get("__name__", "?"), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    ours = [each for each in frames if each[0].partition(".")[0] == "dimsweep"]
    place = "".join(f" (in {module}, line {line})" for module, line in (ours or frames)[-1:])
    return f"{type(error).__name__}: {error}".rstrip(": ") + place


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that a word which is none of ``known`` stands for: one that begins with it, or the
    one that is most like it, whatever the case of their letters."""
    names = {name.casefold(): name for name in known}
    lower = word.casefold()
    close = [name for name in names if lower and name.startswith(lower)]
    close = close or difflib.get_close_matches(lower, names, n=1, cutoff=cutoff)
    return names[close[0]] if close else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """``did you mean ...? known: ...``, a hint for a word that is none of ``known``."""
    names = list(known)
    close = nearest(word, names)
    return (f"did you mean {close!r}? " if close else "") + f"known: {', '.join(names)}"


def in_yaml(value: object) -> str:
    """A value in an error as its user wrote it: ``null`` and ``true``."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)


def _rebuild(cls: type[DimsweepError], what: str, where: str, hint: str) -> DimsweepError:
    return cls(what, where=where, hint=hint)
