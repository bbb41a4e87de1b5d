"""What the traces of a job were asked for: numbers by key, in PREFIX.keys.json beside them."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.output import write_file


def write_keys(prefix: str, config: Config, names: Sequence[str]) -> Path:
    """Write the configuration's values at dotted keys, by their last part.

    Raises :class:`DimsweepError` for a key that is not there, or is no number.
    """
    keys = {}
    for name in names:
        value = config.value(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise DimsweepError(f"{value!r} is no number, which traces are learnt by", where=name)
        keys[name.rpartition(".")[2]] = value
    return write_file(f"{prefix}.keys.json", "the keys", (json.dumps(keys) + "\n").encode())


Keys = dict[str, float]
_HINT = 'a JSON file such as {"layers": 24, "tensor": 8}; dimsweep trace write --keys writes it'
_HINT_OF_ALL = 'a JSON file such as {"job1": {"layers": 24, "tensor": 8}, "job2": ...}'


def read_keys(prefix: str) -> Keys:
    """The keys of the traces of a prefix.  Raises :class:`DimsweepError` for a file without."""
    file = Path(f"{prefix}.keys.json")
    return _numbers(_read(file, _HINT), str(file), _HINT)


def read_all_keys(file: Path) -> dict[str, Keys]:
    """The keys of several jobs, by their names.  Raises :class:`DimsweepError` for other files."""
    content = _read(file, _HINT_OF_ALL)
    if not isinstance(content, dict):
        raise DimsweepError("the file holds no jobs by name", where=str(file), hint=_HINT_OF_ALL)
    return {job: _numbers(keys, f"{file}: {job}", _HINT_OF_ALL) for job, keys in content.items()}


def _read(file: Path, hint: str) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"cannot read what the job was asked for: {error.strerror}"
        raise DimsweepError(what, where=str(file), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DimsweepError(f"the file is not JSON: {error}", where=str(file)) from error


def _numbers(content: object, where: str, hint: str) -> Keys:
    if not isinstance(content, dict) or not content:
        raise DimsweepError("the file holds no numbers by key", where=where, hint=hint)
    for name, value in content.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise DimsweepError(
                f"{name} is {value!r}; the file holds no numbers by key", where=where, hint=hint
            )
    return {name: float(value) for name, value in content.items()}


def parsed(words: Sequence[str]) -> Mapping[str, float]:
    """KEY=VALUE words.  Raises :class:`DimsweepError` for one that is none, or no number."""
    keys: dict[str, float] = {}
    for word in words:
        name, equals, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not math.isfinite(number):
            raise DimsweepError(f"{word!r} is no KEY=NUMBER", hint="such as layers=48")
        if name in keys:
            raise DimsweepError("it is given twice", where=name)
        keys[name] = number
    return keys
