"""What the traces of a job were asked for: numbers by key, in PREFIX.keys.json beside them."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, Strict

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_json, validated
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
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
_Keys = Annotated[dict[str, _Number], Field(min_length=1)]
_HINT = 'a JSON file such as {"layers": 24, "tensor": 8}; dimsweep trace write --keys writes it'
_HINT_OF_ALL = 'a JSON file such as {"job1": {"layers": 24, "tensor": 8}, "job2": ...}'


def read_keys(prefix: str) -> Keys:
    """The keys of the traces of a prefix.  Raises :class:`DimsweepError` for a file without."""
    return _read(_Keys, Path(f"{prefix}.keys.json"), _HINT)


def read_all_keys(file: Path) -> dict[str, Keys]:
    """The keys of several jobs, by their names.  Raises :class:`DimsweepError` for other files."""
    return _read(dict[str, _Keys], file, _HINT_OF_ALL)


def _read(kind: Any, file: Path, hint: str) -> Any:
    try:
        return validated(kind, read_json(file, "file of keys"), file)
    except DimsweepError as error:
        raise DimsweepError(error.what, where=error.where, hint=hint) from error.__cause__


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
