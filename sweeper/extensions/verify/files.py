"""The files of published studies.

``x.yaml`` is the study, and ``x.points.csv`` next to it holds the published points.  Optional files
are ``x.views.sql`` with views and macros for the points' expressions, ``x.picture.yaml`` with its
picture, and ``x.TABLE.csv`` with a table of measurements.
"""

import os
from pathlib import Path
from typing import NamedTuple

from dimsweep.sweeper import places

_POINTS, _VIEWS, _PICTURE = ".points.csv", ".views.sql", places.PICTURE


class StudyFiles(NamedTuple):
    """The files of one published study."""

    study: Path

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.study.stem

    @property
    def points(self) -> Path:
        """File with the table of published points."""
        return self._find_sibling(_POINTS)

    @property
    def views(self) -> Path | None:
        """File of SQL that is run before the points' expressions; None without it."""
        return self._find_existing(_VIEWS)

    @property
    def picture(self) -> Path | None:
        """File that describes the study's picture; None without it."""
        return self._find_existing(_PICTURE)

    @property
    def title(self) -> str:
        """First sentence of the comment in the study's file."""
        words = list[str]()
        for line in self.study.read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith("#"):
                break
            for word in line.lstrip("# ").split():
                words.append(word)
                if word.endswith(("?", ".")):
                    return " ".join(words)
        return " ".join(words) or "It does not say what it asks."

    def find_table(self, name: str) -> Path | None:
        """Return the file of the table of measurements with this name, or None."""
        return None if name == "points" else self._find_existing(f".{name}.csv")

    def find_study(self, name: str) -> Path | None:
        """Return the file of another study, next to this one or in studies/."""
        beside = self.study.with_name(f"{name}.yaml")
        return beside if beside.is_file() else places.find_study(name)

    def _find_sibling(self, ending: str) -> Path:
        return self.study.with_name(self.name + ending)

    def _find_existing(self, ending: str) -> Path | None:
        file = self._find_sibling(ending)
        return file if file.is_file() else None


def find_published() -> dict[str, StudyFiles]:
    """Return the studies of studies/ that have published points, by name."""
    files = (places.find_study(name) for name in places.list_studies())
    found = {file.stem: StudyFiles(file) for file in files if file is not None}
    return {name: each for name, each in found.items() if each.points.is_file()}


def find_study_files(word: str) -> StudyFiles | None:
    """Return the published study at a path: its YAML file, or a folder with one study.

    Returns None for an unknown name that is not a path.  Raises :class:`DimsweepError` for a path
    without points, or with the points of several studies.
    """
    from dimsweep.engine import DimsweepError

    folder = Path(word)
    if os.path.isdir(folder):
        tables = sorted(folder.glob(f"*{_POINTS}"))
        if len(tables) != 1:
            names = ", ".join(table.name for table in tables)
            problem = f"points of several studies: {names}" if tables else "no table of points"
            hint = (
                "give one study's YAML" if tables else "write STUDY.points.csv next to STUDY.yaml"
            )
            raise DimsweepError(
                problem, where=word, hint=hint, code="conflict" if tables else "missing"
            )
        found = StudyFiles(folder / f"{tables[0].name.removesuffix(_POINTS)}.yaml")
    elif (study := places.find_study(word)) is not None:
        found = StudyFiles(study)
    elif places.is_path(word):
        raise DimsweepError("no such study or folder", where=word, code="inaccessible")
    else:
        return None
    for file in (found.study, found.points):
        if not os.path.isfile(file):
            problem = "a published study needs this file, which is missing"
            raise DimsweepError(problem, where=str(file), code="inaccessible")

    return found
