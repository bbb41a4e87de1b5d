"""The built-in extensions: the commands, workloads and so on that they add, imported on first use.

Each folder of :mod:`sweeper.extensions` is an extension.  Its ``OFFERS`` maps a kind of object
(``command``, ``workload`` ...) to names with their targets: "module:object" below the folder, or an
object with an attribute ``target``.  The core knows extensions through this module only.
"""

from functools import cache
from importlib import import_module
from typing import Any

_ROOM = "dimsweep.sweeper.extensions"


def find_offers(kind: str) -> dict[str, Any]:
    """Return the targets that extensions offer for a kind such as ``command``, by name."""
    return {name: each for own in _extensions() for name, each in own.get(kind, {}).items()}


def load_target(target: str) -> Any:
    """Import and return the object of a target "module:object"."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def load_offers(kind: str) -> dict[str, Any]:
    """Import and return the objects that extensions offer for a kind such as ``command``.

    They are returned by name.
    """
    return {name: load_target(target) for name, target in find_offers(kind).items()}


@cache
def _extensions() -> tuple[dict[str, dict[str, Any]], ...]:
    """Return the ``OFFERS`` of each extension."""
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
    """Return an offer whose target is prefixed with the extension's ``module``."""
    if isinstance(offer, str):
        return f"{module}.{offer}"
    return offer._replace(target=f"{module}.{offer.target}")
