"""Where configuration files, studies and what they name may lie."""

from pathlib import Path

_HERE = Path(__file__).resolve().parents[2]


def homes(folder: str) -> list[Path]:
    """Where ``folder`` (conf or studies) may lie: the current folder first, then the installation.

    A wheel carries both inside the package; in a checkout they lie beside it.
    """
    installed = _HERE / folder if (_HERE / folder).is_dir() else _HERE.parent / folder
    mine = Path.cwd() / folder
    same = mine.resolve() == installed.resolve()
    return [mine, installed] if mine.is_dir() and not same else [installed]


def found(path: str) -> Path:
    """A file (or the prefix of files) as a configuration names it: as given, or beside the
    studies."""
    for place in (Path(path), *(home / path for home in homes("studies"))):
        if place.exists() or any(place.parent.glob(f"{place.name}.*")):
            return place
    return Path(path)


def find_study(name: str) -> Path | None:
    """The file of a study: a name in studies/, or the path of a file."""
    for home in (*homes("studies"), Path()):
        for file in (home / f"{name}.yaml", home / name):
            if file.is_file() and file.suffix in (".yaml", ".yml"):
                return file
    return None


def study_names() -> list[str]:
    """Names of all studies in the current folder's studies/ and in the installed one."""
    return sorted({file.stem for home in homes("studies") for file in home.glob("*.yaml")})
