"""Counts of the infeasible networks, plans and places that a space leaves out, by reason."""

from collections import Counter

from dimsweep.engine import DimsweepError, InfeasibleError


class Refusals(Counter[str]):
    """The number of infeasible networks, plans or places, by reason."""

    def __init__(self) -> None:
        super().__init__()
        self._first = dict[tuple[str, str], tuple[str, DimsweepError]]()

    def add(self, what: str, error: DimsweepError, where: str, n: int = 1) -> None:
        """Count ``n`` that raised an ``error`` at the key ``where``, whose first error names the
        reason."""
        reason = reason_of(what, error, where)
        self[self._first.setdefault((what, where), (reason, error))[0]] += n

    def error(self, what: str, where: str, hint: str = "") -> DimsweepError:
        """Return the error of a space that has nothing else: its only one if the configuration is
        wrong, or ``what`` is missing with all reasons."""
        errors = [error for _, error in self._first.values()]
        if len(self) == len(errors) == 1 and not isinstance(errors[0], InfeasibleError):
            return errors[0]
        return InfeasibleError(what + (f": {self}" if self else ""), where=where, hint=hint)

    def __str__(self) -> str:
        return ", ".join(f"{n:,} {reason}" for reason, n in self.items())


def reason_of(what: str, error: DimsweepError, where: str) -> str:
    """Return the reason why ``what`` is left out: the key ``where`` and the error, which may have
    other numbers in other designs."""
    such = "such as: " * isinstance(error, InfeasibleError)
    return f"{what} ({where}{', ' if where and such else ': ' if where else ''}{such}{error.what})"
