"""What a trial sets of its configuration."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

# Of a what-if, the entry that is no key of the configuration: which change it is, of what.
MARK = "what_if"


class Setting(Mapping[str, Any]):
    """Values of config keys.  ``text`` is the one way to write them down: settings of the same text
    are the same one, in a search, in the key of a row and on a worker."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        # In the order of the keys, so that a part of one comes after the whole.
        self._values = dict(sorted((values or {}).items()))
        self.text = json.dumps(self._values)  # within a value, the order of keys may count

    @property
    def keys_only(self) -> "Setting":
        """Without what is no key of the configuration."""
        return self.without(MARK) if MARK in self else self

    def without(self, *names: str) -> "Setting":
        """The rest of the values."""
        return Setting({name: value for name, value in self.items() if name not in names})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Setting) else self._values == other

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text
