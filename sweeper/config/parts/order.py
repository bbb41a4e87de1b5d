"""Where the order of keys means something, and how it survives sorting and comparing."""

import json
from collections.abc import Mapping
from typing import Any

# Axes of a plan are placed innermost first, and jobs take their NPUs one after another.
_ORDERED = ("parallel", "jobs")


def has_order(name: object) -> bool:
    """Whether the order of the keys of a (dotted) key's mapping means something."""
    return str(name).rsplit(".", 1)[-1] in _ORDERED


def in_order(node: Any, *, ordered: bool = False) -> Any:
    """Plain data in which each mapping whose order counts is a list of pairs, so that data in
    another order are not equal, nor have the same sorted text.  A key may be dotted
    (``workload.parallel``), and its value a list of such mappings.
    """
    if isinstance(node, Mapping):
        found = {name: in_order(value, ordered=has_order(name)) for name, value in node.items()}
        return [list(pair) for pair in found.items()] if ordered else found
    if isinstance(node, (list, tuple)):
        return [in_order(each, ordered=ordered) for each in node]
    return node


def canonical(node: Any) -> str:
    """Plain data as the one text that says the same."""
    return json.dumps(in_order(node), sort_keys=True, default=str)
