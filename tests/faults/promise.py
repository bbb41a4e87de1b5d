"""The promises of docs/results.md, and the faults that would break them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


Act = Callable[[Path], int | None]


@dataclass(frozen=True)
class Fault:
    """A fault against a promise, by its number: ``act`` has it happen in an empty folder, and
    raises :class:`AssertionError` if the promise does not hold.  It may say how often the fault
    happened."""

    promise: int
    act: Act

    @property
    def name(self) -> str:
        """What happens, in words."""
        return self.act.__name__.replace("_", " ")


FAULTS: list[Fault] = []


def against(promise: int) -> Callable[[Act], Act]:
    """Registers a function as a :class:`Fault`; its name says what happens."""

    def register(act: Act) -> Act:
        FAULTS.append(Fault(promise, act))
        return act

    return register


def promises() -> dict[int, str]:
    """The sentences in bold of the page's section, by number."""
    section = PAGE.read_text(encoding="utf-8").split("## Guarantees")[1].split("\n## ")[0]
    found = re.findall(r"^(\d+)\. \*\*(.+?)\*\*", section, re.MULTILINE | re.DOTALL)
    return {int(number): " ".join(text.split()) for number, text in found}
