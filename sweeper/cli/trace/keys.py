"""What the traces of a job were asked for: numbers by key, in PREFIX.keys.json beside them."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine import DimsweepError
from sweeper.cli.output import write_file
from sweeper.config.schema import Config


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


def read_keys(prefix: str) -> dict[str, float]:
    """The keys of the traces of a prefix.  Raises :class:`DimsweepError` for a file without."""
    file = Path(f"{prefix}.keys.json")
    hint = 'a JSON file such as {"layers": 24, "tensor": 8}; dimsweep trace write --keys writes it'
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"cannot read what the job was asked for: {error.strerror}"
        raise DimsweepError(what, where=str(file), hint=hint) from error
    except ValueError as error:
        raise DimsweepError(f"the file is not JSON: {error}", where=str(file)) from error
    numbers = isinstance(content, dict) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        for value in content.values()
    )
    if not numbers or not content:
        raise DimsweepError("the file holds no numbers by key", where=str(file), hint=hint)
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
