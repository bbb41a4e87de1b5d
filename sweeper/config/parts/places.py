"""Where configuration files, studies and what they name may lie."""

from collections.abc import Mapping
from pathlib import Path

_brought: dict[str, Path] = {}
_HERE = Path(__file__).resolve().parents[2]


def homes(folder: str) -> list[Path]:
    """Where ``folder`` (conf or studies) may lie: the current folder first, then the installation.

    A wheel carries both inside the package; in a checkout they lie beside it.
    """
    installed = _HERE / folder if (_HERE / folder).is_dir() else _HERE.parent / folder
    mine = Path.cwd() / folder
    same = mine.resolve() == installed.resolve()
    return [mine, installed] if mine.is_dir() and not same else [installed]


def bring(files: Mapping[str, Path]) -> None:
    """Have :func:`found` find files of another machine in this one's copies of them."""
    _brought.update(files)


def found(path: str) -> Path:
    """A file (or the prefix of files) as a configuration names it: as given, or beside the
    studies."""
    if path in _brought:
        return _brought[path]
    for place in (Path(path), *(home / path for home in homes("studies"))):
        if place.exists() or any(place.parent.glob(f"{place.name}.*")):
            return place
    return Path(path)


def contents(path: str) -> list[Path]:
    """The files that a configuration means by ``path``: one, or all of a prefix."""
    place = found(path)
    return [place] if place.is_file() else sorted(place.parent.glob(f"{place.name}.*"))


def find_study(name: str) -> Path | None:
    """The file of a study: a name in studies/, or the path of a file."""
    for home in (*homes("studies"), Path()):
        for file in (home / f"{name}.yaml", home / name):
            if file.is_file() and file.suffix in (".yaml", ".yml"):
                return file
    return None


def groups() -> dict[str, list[str]]:
    """The options of each configuration group by its name; ``none`` is what there is without."""
    found: dict[str, set[str]] = {"study": set(study_names())}
    for home in homes("conf"):
        for file in home.glob("*/*.yaml"):
            found.setdefault(file.parent.name, set()).add(file.stem)
    return {name: sorted(found[name] - {"none"}) for name in sorted(found)}


def names_file(study: str) -> bool:
    """Whether a study is given as the path of a file, rather than by its name."""
    return study.endswith((".yaml", ".yml")) or "/" in study


def study_names() -> list[str]:
    """Names of all studies in the current folder's studies/ and in the installed one."""
    files = (file for home in homes("studies") for file in home.glob("*.yaml"))
    return sorted({file.stem for file in files if file.is_file()})
