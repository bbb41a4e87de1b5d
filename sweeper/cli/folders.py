"""Folders of results, as a user names them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeper.ledger.place import Place


def results_in(name: str) -> "Place":
    """The folder that is meant by its path, or by the name of a study in results/."""
    from sweeper.ledger.place import STUDY, place

    beside = place("results") / name
    return beside if (beside / STUDY).is_file() else place(name)
