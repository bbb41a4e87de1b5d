"""Small JSON and YAML files: keys are asked for by kind, errors name file and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from engine.errors import DimsweepError
from engine.formats.content import read_text


class Fields:
    """The keys and values of one file; every method raises :class:`DimsweepError`."""

    def __init__(self, path: Path, raw: object) -> None:
        if not isinstance(raw, dict):
            raise DimsweepError("the file holds no mapping of keys", where=str(path))
        self.path = path
        self.raw: dict[str, Any] = raw

    def where(self, key: str) -> str:
        return f"{self.path}: {key}"

    def number(self, key: str, default: float) -> float:
        value = self.raw.get(key, default)
        if not is_number(value) or value < 0:
            raise DimsweepError(f"{value!r} is no number", where=self.where(key))
        return float(value)

    def whole(self, key: str, default: int, *, least: int) -> int:
        value = self.raw.get(key, default)
        if not is_whole(value) or value < least:
            raise DimsweepError(
                f"{value!r}; a whole number, {least} or more", where=self.where(key)
            )
        return int(value)

    def flag(self, key: str) -> bool:
        return bool(self.whole(key, 0, least=0))

    def choice(self, key: str, known: tuple[str, ...], default: str) -> str:
        value = self.raw.get(key, default)
        if value not in known:
            raise DimsweepError(
                f"{value!r} is not known", where=self.where(key), hint=", ".join(known)
            )
        return str(value)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_json(path: Path) -> Fields:
    """Raises :class:`DimsweepError` for a file that cannot be read, or holds no JSON object."""
    return _fields(path, json.loads, "JSON")


def read_yaml(path: Path) -> Fields:
    """Raises :class:`DimsweepError` for a file that cannot be read, or holds no YAML mapping."""
    return _fields(path, yaml.safe_load, "YAML")


def _fields(path: Path, parse: Callable[[str], object], form: str) -> Fields:
    try:
        return Fields(path, parse(read_text(path, "file")))
    except (ValueError, yaml.YAMLError) as error:
        raise DimsweepError(f"the file is not {form}: {error}", where=str(path)) from error
