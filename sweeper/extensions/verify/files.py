"""Published studies as data: which there are, and the files of one.

``x.yaml`` is the study, and beside it lie ``x.points.csv`` with what was published, perhaps
``x.views.sql`` with views and macros that the points' expressions name, ``x.picture.yaml`` with its
picture, and ``x.TABLE.csv`` with a table of measurements.
"""

import os
from pathlib import Path
from typing import NamedTuple

from dimsweep.sweeper import places

_POINTS, _VIEWS, _PICTURE = ".points.csv", ".views.sql", places.PICTURE


class StudyFiles(NamedTuple):
    """The files of a published study."""

    study: Path

    @property
    def name(self) -> str:
        return self.study.stem

    @property
    def points(self) -> Path:
        return self._find_sibling(_POINTS)

    @property
    def views(self) -> Path | None:
        """SQL that is run before the points are looked at."""
        return self._find_existing(_VIEWS)

    @property
    def picture(self) -> Path | None:
        return self._find_existing(_PICTURE)

    @property
    def title(self) -> str:
        """What is asked: the first sentence of the study's comment."""
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
        """A table of measurements."""
        return None if name == "points" else self._find_existing(f".{name}.csv")

    def find_study(self, name: str) -> Path | None:
        """Another study, beside this one or in studies/."""
        beside = self.study.with_name(f"{name}.yaml")
        return beside if beside.is_file() else places.find_study(name)

    def _find_sibling(self, ending: str) -> Path:
        return self.study.with_name(self.name + ending)

    def _find_existing(self, ending: str) -> Path | None:
        file = self._find_sibling(ending)
        return file if file.is_file() else None


def find_published() -> dict[str, StudyFiles]:
    """The studies of studies/ that have published points, by their names."""
    files = (places.find_study(name) for name in places.study_names())
    found = {file.stem: StudyFiles(file) for file in files if file is not None}
    return {name: each for name, each in found.items() if each.points.is_file()}


def find_study_files(word: str) -> StudyFiles | None:
    """The published study that a path means: its yaml, or the folder that it is alone in; a name
    that is no path, and that no study has, means None.

    Raises :class:`DimsweepError` where a path leads to no points, or to those of several studies.
    """
    from dimsweep.engine import DimsweepError

    folder = Path(word)
    if os.path.isdir(folder):
        tables = sorted(folder.glob(f"*{_POINTS}"))
        if len(tables) != 1:
            names = ", ".join(table.name for table in tables)
            what = (
                f"it has the points of several studies: {names}" if tables else "it has no points"
            )
            hint = "name one study's yaml" if tables else "write STUDY.points.csv beside STUDY.yaml"
            raise DimsweepError(what, where=word, hint=hint)
        found = StudyFiles(folder / f"{tables[0].name.removesuffix(_POINTS)}.yaml")
    elif (study := places.find_study(word)) is not None:
        found = StudyFiles(study)
    elif places.names_file(word):
        raise DimsweepError("there is no such study or folder", where=word)
    else:
        return None
    for file in (found.study, found.points):
        if not os.path.isfile(file):
            raise DimsweepError("a published study needs it, and it is not there", where=str(file))
    return found
