"""The JSON files of PyTorch."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import DimsweepError

# What reading a value of another type or form raises.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_GZIP = b"\x1f\x8b"


def read_object(path: Path, what: str) -> Mapping[str, Any]:
    """A JSON object, plain or gzip.  Raises :class:`DimsweepError` if ``path`` holds none."""
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        content = json.loads(data)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DimsweepError(f"cannot read the {what}: {reason}", where=str(path)) from error
    if not isinstance(content, dict):
        raise DimsweepError(f"this is no {what}: not a JSON object", where=str(path))
    return content
