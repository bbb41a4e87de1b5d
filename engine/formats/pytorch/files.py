"""The JSON files of PyTorch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import DimsweepError
from engine.formats.content import read_bytes

# What reading a value of another type or form raises.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


def read_object(path: Path, what: str) -> Mapping[str, Any]:
    """A JSON object, plain or gzip.  Raises :class:`DimsweepError` if ``path`` holds none."""
    try:
        content = json.loads(read_bytes(path, what))
    except (ValueError, RecursionError) as error:
        raise DimsweepError(f"cannot read the {what}: {error}", where=str(path)) from error
    if not isinstance(content, dict):
        raise DimsweepError(f"this is no {what}: not a JSON object", where=str(path))
    return content
