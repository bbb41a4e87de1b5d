"""What is wrong with a configuration that cannot be composed: Hydra's messages in our words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from dimsweep.engine import DimsweepError, nearest, suggestion
from dimsweep.engine.formats import GIVE
from dimsweep.sweeper.config.composition import compose_files, state_of_files
from dimsweep.sweeper.config.origin import Origin
from dimsweep.sweeper.config.parts.places import find_option, find_study, groups, homes
from dimsweep.sweeper.config.workload import KINDS

_MOST = 3  # options that are told

_MISSING = re.compile(
    r"Could not find '(?:.*/)?(?P<name>[^/']*)'.*?Available options in "
    r"'(?P<group>[^']*)':(?P<options>.*?)(?:Config search path|$)",
    re.DOTALL,
)
_NO_GROUP = re.compile(r"In '(?P<file>[^']*)': Could not override '(?P<group>[^']*)'")
_NO_SLASH = re.compile(r"In '(?P<file>study/[^']*)': Could not find 'study/(?P<entry>[^']+)'")
_NO_KIND = re.compile(r"In '(?P<file>[^']*)': Could not (?:load|find) '[^']*kind/(?P<kind>[^']*)'")
_ALIKE = 0.7  # a name that is less like it comes after those whose files speak of it


@contextmanager
def explaining(origin: Origin) -> Iterator[None]:
    """Errors of composing say in our words what is wrong, and where it came from."""
    try:
        yield
    except MissingMandatoryValue as error:
        missing = DimsweepError("this key needs a value", where=str(error.full_key), hint=GIVE)
        raise origin.blame(missing) from error
    except OmegaConfBaseException as error:
        raise origin.blame(_explain(error)) from error
    except HydraException as error:
        raise _explain(error) from error
    except RecursionError as error:
        raise _endless(origin) from error


def _endless(origin: Origin) -> DimsweepError:
    names = [name for word in origin.words for name in word.studies]
    return DimsweepError(
        "its defaults have no end",
        where=", ".join(str(find_study(name) or name) for name in names),
        hint="a study, or a file that it names, includes itself or is nested too deeply",
    )


def _explain(error: Exception) -> DimsweepError:
    """Hydra's own message, which names the file or override, with the cause that names the key."""
    if explained := _explain_missing(str(error)):
        return explained
    text, cause, where = str(error).strip(), error.__cause__, ""
    if " raised while composing config:" in text:  # In 'workload/x': SomeError raised while ...
        where, text = text.removeprefix("In '").split("': ", 1)
        where, text = _file_of(where), text.split(" raised while composing config:", 1)[1].strip()
    first, _, rest = text.partition("\n")
    if cause is not None and str(cause).partition("\n")[0] not in text:
        first = f"{first.rstrip('.:')}: {cause}".partition("\n")[0]
    key = re.search(r"full_key: *(\S+)", f"{rest} {cause}")
    what = re.sub(r"^\w+ raised while resolving interpolation: ", "", first).strip('"')
    hint, place = "", key[1] if key else ""
    if "Cannot merge DictConfig with ListConfig" in what:  # the same of both that could be meant
        is_list = "object_type=list" in f"{rest} {cause}"
        if not place and Path(where).is_file():
            place, is_list = _misplaced_in(where) or ("", False)
        what, hint = "a list stands where keys with values belong", "such as {KEY: VALUE}"
        if is_list:
            what, hint = "keys with values stand where a list belongs", "such as [{KEY: VALUE}]"
    return DimsweepError(what, where=": ".join([where, place]).strip(": "), hint=hint)


def _explain_missing(text: str) -> DimsweepError | None:
    """Hydra's message about an option, a group or a kind that there is not, in our words."""
    if found := _NO_KIND.search(text):
        what, hint = (
            f"there is no kind of workload {found['kind']!r}",
            suggestion(found["kind"], KINDS),
        )
    elif found := _NO_GROUP.search(text):
        what, hint = f"there is no group {found['group']!r}", suggestion(found["group"], groups())
    elif found := _NO_SLASH.search(text):
        group, _, option = found["entry"].partition("/")
        what = f"{group!r} in its defaults is no group of studies"
        hint = f"write override /{group}: {option}"
    elif found := _MISSING.search(text):
        name, group = Path(found["name"]).stem, found["group"]
        what, hint = f"there is no {group} {found['name']!r}", _meant(name, group, found["options"])
        return DimsweepError(what, where=f"{group}={found['name']}", hint=hint)
    else:
        return None
    return DimsweepError(what, where=f"{_file_of(found['file'])}: defaults", hint=hint)


def _meant(name: str, group: str, options: str) -> str:
    """A hint for a name of no option: a name like it, or options whose files speak of it."""
    names = options.split()
    close = nearest(name, names, _ALIKE)
    told = [close] if close else list(_described(name, group, names))[:_MOST]
    if not told:
        return suggestion(name, names)
    return f"did you mean {' or '.join(map(repr, told))}? known: {', '.join(names)}"


def _described(word: str, group: str, names: list[str]) -> Iterator[str]:
    """The options of a group in whose comments a word begins with ``word``."""
    if len(word) < 3:
        return
    said = re.compile(rf"#.*\b{re.escape(word)}", re.IGNORECASE)
    for name in names:
        for file in (home / group / f"{name}.yaml" for home in homes("conf")):
            if file.is_file() and said.search(file.read_text("utf-8", "replace")):
                yield name
                break


def _file_of(option: str) -> str:
    """The file of an option of a group such as study/x, where there is one."""
    group, _, name = option.rpartition("/")
    study = find_study(name) if group == "study" else None
    return str(study or find_option(group, name) or option)


def _misplaced_in(file: str) -> tuple[str, bool] | None:
    """What is misplaced in a file that Hydra has read, beside a configuration in which nothing is
    chosen."""
    known = compose_files((), state_of_files(())).node()
    given, plain = (OmegaConf.to_container(each) for each in (OmegaConf.load(file), known))
    return _misplaced(given, plain)


def _misplaced(given: Any, known: Any, place: str = "") -> tuple[str, bool] | None:
    """The first key that has a list in ``given`` where ``known`` has keys, or the other way, and
    whether that is a list there."""
    if {type(given), type(known)} == {dict, list}:
        return place, isinstance(known, list)
    if not isinstance(given, dict) or not isinstance(known, dict):
        return None
    below = (
        _misplaced(each, known.get(key), f"{place}.{key}".strip(".")) for key, each in given.items()
    )
    return next(filter(None, below), None)
