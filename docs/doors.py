"""What the page of the Python interfaces shows of a door, a package that only passes names on: all
that it imports, as it has no list of them."""

from typing import Any

import griffe


class Doors(griffe.Extension):
    """Tells griffe, which shows imported names only where a list says so."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        code = any(member.is_function or member.is_class for member in _own(mod))
        if mod.is_init_module and mod.exports is None and not code:
            mod.exports = list(mod.members)


def _own(module: griffe.Module) -> list[griffe.Object]:
    return [each for each in module.members.values() if isinstance(each, griffe.Object)]
