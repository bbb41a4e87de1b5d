"""Versions of a study's files: convert files of earlier versions, reject later ones.

``rows`` in ``study.json`` is the version of its folder. ``record`` and ``files`` use this module.
Columns that an earlier version lacks are null. tests/golden/ledgers has studies of each version.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.rows import ROWS_VERSION
from dimsweep.sweeper.part import canonical_text
from dimsweep.sweeper.versions import package_version

OLDEST = 2  # of release 0.2.0
_FIRST_MARKED = 4  # files of earlier versions have neither a study nor a checksum
_FIRST_ORDERED = 9  # before it, the hash of a study did not see the order of a plan's axes

COLUMNS = {"point": "trial"}  # columns of version 2, and their names in this version
_KEYS = {"points": "trials"}  # keys of a cell's record, old and new
_GONE = (("npu", "error"),)  # keys of configurations that are no longer read


def check_version(node: Mapping[str, Any], where: str) -> None:
    """Raise :class:`DimsweepError` if this version cannot read the record ``node`` of a study."""
    version = node.get("rows")
    if not isinstance(version, int) or OLDEST <= version <= ROWS_VERSION:
        return
    newer = version > ROWS_VERSION
    raise DimsweepError(
        f"the results have format {version}, written by {writer(node)}; dimsweep "
        f"{package_version('dimsweep')} reads formats {OLDEST} to {ROWS_VERSION}",
        where=where,
        hint="read them with the dimsweep that wrote them" + (", or a later one" if newer else ""),
        code="unsupported",
    )


def writer(node: Mapping[str, Any]) -> str:
    """Return the software that last wrote a record: ``dimsweep 0.2.0 (commit 1f3a9c5e)``."""
    written = node.get("provenance")
    last = written[-1] if isinstance(written, list) and written else None
    if not isinstance(last, Mapping) or not isinstance(last.get("version"), str):
        return "another version of dimsweep"
    commit = f" (commit {last['git'][:12]})" if isinstance(last.get("git"), str) else ""
    return f"dimsweep {last['version']}{commit}"


def identity(node: Mapping[str, Any]) -> str:
    """Return the identity of the study with the record ``node``: a hash of the inputs of its rows.

    It is "" for the first versions, whose files have no identity.
    """
    own = {name: node.get(name) for name in ("config", "model", "rows")}
    version = own["rows"] if isinstance(own["rows"], int) else ROWS_VERSION
    if version < _FIRST_MARKED:
        return ""
    text = canonical_text(own) if version >= _FIRST_ORDERED else json.dumps(own, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def upgrade(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record ``node`` of an earlier version with the keys of this version.

    Its key ``rows`` keeps the version that wrote it.
    """
    found = dict(node)
    if found.get("rows") == ROWS_VERSION:
        return found
    for name in ("cells", "baselines"):
        if isinstance(cells := found.get(name), list):
            found[name] = [_cell(cell) for cell in cells]
    found["config"] = _config(found.get("config"))
    return found


def _cell(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    found = {_KEYS.get(name, name): value for name, value in node.items()}
    return found | {"config": _config(found["config"])} if "config" in found else found


def _config(node: Any) -> Any:
    """Return a configuration without keys that this version no longer reads."""
    if not isinstance(node, Mapping):
        return node
    found = dict(node)
    for part, name in _GONE:
        if isinstance(found.get(part), Mapping):
            found[part] = {key: value for key, value in found[part].items() if key != name}
    return found


def checksum(node: Any) -> str:
    """Return a CRC-32 of plain data that does not depend on the order of keys."""
    return f"{zlib.crc32(json.dumps(node, sort_keys=True).encode()):08x}"
