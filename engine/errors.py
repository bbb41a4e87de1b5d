"""The errors that a user of dimsweep reads, and helpers that all packages use to raise them."""

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

#: The kinds of fault.  Scripts and tests check the code of an error and its place, not its words.
Code = Literal[
    "invalid",  # wrong in a way that no other code names
    "unknown-key",  # a setting that does not exist
    "unknown-name",  # a value that is none of the known names
    "wrong-type",  # a value of another type, or text that does not parse as a value
    "out-of-range",  # a number outside its bounds
    "mismatch",  # sizes, counts or names that must agree and do not
    "conflict",  # settings that exclude each other
    "missing",  # a setting, file or figure that is needed and was not given
    "duplicate",  # a name or an entry that was given twice
    "unsupported",  # a valid description that this part of dimsweep does not model
    "bad-syntax",  # a text or a file that does not follow its format
    "inaccessible",  # a file, port, package or machine that cannot be opened or reached
    "damaged",  # stored results that contradict themselves
    "stalled",  # a simulation whose ranks wait for each other
    "infeasible",  # a design that cannot be built or run
    "too-many",  # more messages, packets or cells than may be simulated
]


class DimsweepError(Exception):
    """An error that the user can correct, such as an invalid setting or an unreadable file.

    Parameters
    ----------
    problem
        One phrase that says what is wrong.
    where
        The place in the user's own terms: a configuration key, a file and line, a rank.  A caller
        that knows more adds to it (see :meth:`with_prefix` and :meth:`in_place`), so deep code
        need not know which file its input came from.
    hint
        The valid values, or what to do next.
    code
        The kind of error, as a short identifier such as ``unknown-name``.
    """

    code: Code = "invalid"

    def __init__(
        self, problem: str, *, where: str = "", hint: str = "", code: Code | None = None
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.hint = hint
        if code is not None:
            self.code = code

    def with_prefix(self, prefix: str) -> "DimsweepError":
        """Return this error with ``prefix`` in front of its place: ``topology`` + ``size``."""
        joint = "" if not self.where or self.where.startswith("[") else "."
        return self.replace(where=f"{prefix}{joint}{self.where}")

    def in_place(self, place: object) -> "DimsweepError":
        """Return this error with its place inside ``place``: ``a.yaml: topology``."""
        return self.replace(where=f"{place}: {self.where}" if self.where else str(place))

    def replace(
        self,
        *,
        problem: str | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> "DimsweepError":
        """Return an error of this type and code with the given parts replaced."""
        return _rebuild(
            type(self),
            self.problem if problem is None else problem,
            self.where if where is None else where,
            self.hint if hint is None else hint,
            self.code,
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their positional arguments; keep the place, the hint and the code on
        # the way back from a worker process.
        return (_rebuild, (type(self), self.problem, self.where, self.hint, self.code))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.problem}{advice}"


class InfeasibleError(DimsweepError):
    """A design that is described correctly but cannot be built or run."""

    code = "infeasible"


class TooManyError(DimsweepError):
    """A simulation with more messages or packets than allowed: the design's time is unknown."""

    code = "too-many"


def check_minimum(part: object, minimum: float, *keys: str) -> None:
    """Raise :class:`DimsweepError` for the first attribute among ``keys`` below ``minimum``."""
    for key in keys:
        if not getattr(part, key) >= minimum:
            problem = f"{getattr(part, key)}; it must be {minimum} or more"
            raise DimsweepError(problem, where=key, code="out-of-range")


@contextmanager
def prefixing_errors(prefix: str) -> Iterator[None]:
    """Put ``prefix`` in front of the place of errors (see :meth:`DimsweepError.with_prefix`)."""
    try:
        yield
    except DimsweepError as error:
        raise error.with_prefix(prefix) from error.__cause__


@contextmanager
def naming_place(place: object) -> Iterator[None]:
    """Name the outer ``place`` in errors (see :meth:`DimsweepError.in_place`)."""
    try:
        yield
    except DimsweepError as error:
        raise error.in_place(place) from error.__cause__


@contextmanager
def accessing(file: object, failure: str, *others: type[Exception]) -> Iterator[None]:
    """Turn system errors, and errors of the types ``others``, into a :class:`DimsweepError`.

    The error names ``file``.  ``failure`` says which attempt failed, such as "it cannot be read".
    """
    raised: tuple[type[Exception], ...] = OSError, *others
    try:
        yield
    except raised as error:
        reason = str(getattr(error, "strerror", None) or error)
        code: Code = "inaccessible" if isinstance(error, OSError) else "bad-syntax"
        raise DimsweepError(f"{failure}: {reason}", where=str(file), code=code) from error


@contextmanager
def needing(package: str, otherwise: DimsweepError) -> Iterator[None]:
    """Raise the error ``otherwise`` if the optional ``package`` is not installed.

    It applies to imports while the context is open.  A package that is installed but broken raises
    its own import error, because installing it again need not help.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise otherwise from error


def describe_defect(error: BaseException) -> str:
    """Return one line about an unexpected exception: type, text, and innermost line of dimsweep."""
    frames = [
        (frame.f_globals.get("__name__", "?"), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    ours = [each for each in frames if each[0].partition(".")[0] == "dimsweep"]
    place = "".join(f" (in {module}, line {line})" for module, line in (ours or frames)[-1:])
    return f"{type(error).__name__}: {error}".rstrip(": ") + place


def find_nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that begins with ``word`` or resembles it, ignoring case; else None."""
    names = {name.casefold(): name for name in known}
    lower = word.casefold()
    close = [name for name in names if lower and name.startswith(lower)]
    close = close or difflib.get_close_matches(lower, names, n=1, cutoff=cutoff)
    return names[close[0]] if close else None


def suggest_names(word: str, known: Iterable[str]) -> str:
    """Return the hint ``did you mean ...? known: ...`` for a ``word`` that is not known."""
    names = list(known)
    close = find_nearest(word, names)
    return (f"did you mean {close!r}? " if close else "") + f"known: {', '.join(names)}"


def format_yaml(value: object) -> str:
    """Return a value as its user wrote it in YAML: ``null`` and ``true``."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)


def _rebuild(
    kind: type[DimsweepError], problem: str, where: str, hint: str, code: Code
) -> DimsweepError:
    return kind(problem, where=where, hint=hint, code=code)
