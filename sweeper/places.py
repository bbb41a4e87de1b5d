"""Find configuration files and studies, and the files that they name.

Invalid names (too long, or with a zero byte) count as missing files, as in ``os.path``.
"""

import glob
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_copies: dict[str, Path] = {}
_extra_folders: list[Path] = []
_HERE = Path(__file__).resolve().parents[1]
PLUGINS = "dimsweep.plugins"  # the entry points by which installed packages name their plug-ins
PICTURE = ".picture.yaml"  # ending of files in studies/ that describe pictures


def list_folders(folder: str) -> list[Path]:
    """Return all folders with configuration files, in order of precedence.

    ``folder`` is "conf" or "studies". The current folder's comes first, then the installed one,
    then the folders of :func:`set_extra_folders` and of installed plug-ins.
    """
    mine, theirs = Path.cwd() / folder, installed_folder(folder)
    own = [mine] if os.path.isdir(mine) and not os.path.samefile(mine, theirs) else []
    others = dict.fromkeys((*_extra_folders, *_plugin_folders()))
    return [*own, theirs, *(also if folder == "conf" else also / "study" for also in others)]


def installed_folder(folder: str) -> Path:
    """Return the installed folder "conf" or "studies": in a wheel's package, or in a checkout."""
    return _HERE / folder


def set_extra_folders(folders: Sequence[Path]) -> None:
    """Set the folders that :func:`list_folders` returns last.

    They hold configuration groups; the group of studies is ``study``.
    """
    _extra_folders[:] = folders


@cache
def installed_plugins() -> tuple[str, ...]:
    """Return the names of the modules that installed packages declare as plug-ins."""
    if not any(map(_may_name_plugins, sys.path)):
        return ()
    from importlib.metadata import entry_points  # late: it takes half as long as all of --help

    return tuple(sorted({entry.module for entry in entry_points(group=PLUGINS)}))


def _may_name_plugins(folder: str) -> bool:
    """Return whether packages in an entry of ``sys.path`` may declare plug-ins."""
    named = glob.iglob(os.path.join(glob.escape(folder or "."), "*-info", "entry_points.txt"))
    return os.path.isfile(folder) or any(PLUGINS in Path(file).read_text() for file in named)


@cache
def _plugin_folders() -> tuple[Path, ...]:
    return tuple(filter(None, map(plugin_options_folder, installed_plugins())))


def plugin_options_folder(plugin: str) -> Path | None:
    """Return a plug-in's folder ``conf``, next to its file or in its package, or None."""
    if is_file(plugin):
        places = [find_file(plugin).absolute().parent]
    else:
        try:
            spec = importlib.util.find_spec(plugin.partition(".")[0])
        except (ImportError, ValueError):
            spec = None
        places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    return next((place / "conf" for place in places if (place / "conf").is_dir()), None)


def is_file(plugin: str) -> bool:
    """Return whether a plug-in is given as a file, rather than as a module."""
    return plugin.endswith(".py") or "/" in plugin


def register_copies(files: Mapping[str, Path]) -> None:
    """Make :func:`find_file` return local copies for files of another machine, by path."""
    _copies.update(files)


def find_file(path: str) -> Path:
    """Return the path of a file that a configuration names: as given, or in a folder of studies.

    The name may also be the prefix of several files.
    """
    if path in _copies:
        return _copies[path]
    for place in (Path(path), *(home / path for home in list_folders("studies"))):
        if os.path.exists(place) or any(place.parent.glob(f"{glob.escape(place.name)}.*")):
            return place
    return Path(path)


def list_files(path: str) -> list[Path]:
    """Return the files that a name in a configuration means: one, or all with this prefix."""
    place = find_file(path)
    if os.path.isfile(place):
        return [place]
    return sorted(place.parent.glob(f"{glob.escape(place.name)}.*"))


def find_option(group: str, name: str) -> Path | None:
    """Return the file of an option of a configuration group, or None.

    The group "" stands for the folder conf/ itself.
    """
    files = (home / group / f"{name}.yaml" for home in list_folders("conf"))
    return next((file for file in files if os.path.isfile(file)), None)


def find_study(name: str) -> Path | None:
    """Return the file of a study, given by its name in studies/ or by its path; None if missing."""
    for home in (*list_folders("studies"), Path()):
        for file in (home / f"{name}.yaml", home / name):
            if os.path.isfile(file) and file.suffix in (".yaml", ".yml"):
                return file
    return None


def list_groups() -> dict[str, list[str]]:
    """Return the names of the options of each configuration group, without ``none``."""
    found: dict[str, set[str]] = {"study": set(list_studies())}
    for home in list_folders("conf"):
        for file in home.glob("*/*.yaml"):
            found.setdefault(file.parent.name, set()).add(file.stem)
    return {name: sorted(found[name] - {"none"}) for name in sorted(found)}


def is_path(study: str) -> bool:
    """Return whether a study is given as the path of a file, rather than by its name."""
    return study.endswith((".yaml", ".yml")) or "/" in study


def list_studies() -> list[str]:
    """Return the names of all studies in the current folder's studies/ and the installed one."""
    files = (file for home in list_folders("studies") for file in home.glob("*.yaml"))
    studies = (file for file in files if not file.name.endswith(PICTURE))
    return sorted({file.stem for file in studies if file.is_file()})
