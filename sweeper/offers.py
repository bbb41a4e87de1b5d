"""The built-in extensions: what they offer by name, imported on first use.

Each folder of :mod:`sweeper.extensions` is an extension.  Its ``OFFERS`` maps a kind of thing
(``command``, ``workload`` ...) to the names that it adds, with their targets: "module:object"
below the folder, or an object with an attribute ``target``.  The core knows extensions here only.
"""

from functools import cache
from importlib import import_module
from typing import Any

_ROOM = "dimsweep.sweeper.extensions"


def find_offers(kind: str) -> dict[str, Any]:
    """Return what extensions offer of a kind, by name, with whole targets."""
    return {name: each for own in _extensions() for name, each in own.get(kind, {}).items()}


def load_target(target: str) -> Any:
    """Import the object of a target, "module:object"."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def load_offers(kind: str) -> dict[str, Any]:
    """Return the imported objects that extensions offer of a kind, by name."""
    return {name: load_target(target) for name, target in find_offers(kind).items()}


@cache
def _extensions() -> tuple[dict[str, dict[str, Any]], ...]:
    """Return the offers of all extensions, in their order."""
    found = []
    for name in import_module(_ROOM).EXTENSIONS:
        module = f"{_ROOM}.{name}"
        offers = import_module(module).OFFERS
        found.append(
            {
                kind: {key: _qualify(module, each) for key, each in own.items()}
                for kind, own in offers.items()
            }
        )
    return tuple(found)


def _qualify(module: str, offer: Any) -> Any:
    """Return an offer with its target below ``module``."""
    if isinstance(offer, str):
        return f"{module}.{offer}"
    return offer._replace(target=f"{module}.{offer.target}")
