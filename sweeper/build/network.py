"""From the configuration's ``network`` to the engine's network model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import DimsweepError, NetworkModel, units
from engine.cluster import Switching
from engine.network import Auto, Clos, Dragonfly, Fabric, Mesh, Routing, read_network
from sweeper.config.parse import choice, key, one_per_dim, optional

_FABRICS: dict[str, tuple[type[Fabric], tuple[str, ...], tuple[str, ...]]] = {
    # kind: class, keys that it needs, keys that it may have
    "auto": (Auto, (), ()),
    "mesh": (Mesh, (), ()),
    "clos": (Clos, ("levels", "leaf"), ("pod", "oversubscription")),
    "dragonfly": (Dragonfly, ("routers", "npus"), ()),
}


def network_model(config: Mapping[str, Any], n_dims: int) -> NetworkModel:
    """The links, switches and routes that ``config`` describes; reads ``file`` if it is given."""
    with key("fabric"):
        fabrics = tuple(one_per_dim(config["fabric"], n_dims, _fabric))
    graph = None
    if config["file"] is not None:
        try:
            graph = read_network(config["file"])
        except DimsweepError as error:  # its place is a file's, not a key's
            where = f"file = {error.where}"
            raise DimsweepError(error.what, where=where, hint=error.hint) from error.__cause__
        if any(fabric != Auto() for fabric in fabrics):
            raise DimsweepError(
                "give the fabrics of the dimensions or a file, not both", where="fabric"
            )
        fabrics = ()
    with key("routing"):
        named = config["routing"] != "auto"
        routing = choice(config["routing"], Routing) if named else None
    with key("switching"):
        switching = choice(config["switching"], Switching)
    with key("packet"):
        packet = units.parse(config["packet"], units.BYTES, zero=True)
    with key("buffer"):
        buffer = optional(config["buffer"], units.BYTES)
    plain = {name: config[name] for name in ("seed", "window", "max_messages")}
    return NetworkModel(
        fabrics=fabrics,
        graph=graph,
        routing=routing,
        switching=switching,
        packet=packet,
        buffer=buffer,
        **plain,
    )


def _fabric(value: Any) -> Fabric:
    """A fabric from its kind, or from a mapping with the kind and its numbers."""
    given = dict(value) if isinstance(value, Mapping) else {"kind": value}
    kind = given.pop("kind", None)
    if kind not in _FABRICS:
        raise DimsweepError(
            f"{kind!r} is no fabric",
            hint=f"one of {', '.join(_FABRICS)}, such as {{kind: clos, levels: 2, leaf: 8}}",
        )
    fabric, needed, optional_keys = _FABRICS[kind]
    unknown = [name for name in given if name not in (*needed, *optional_keys)]
    missing = [name for name in needed if name not in given]
    if unknown or missing:
        known = ", ".join((*needed, *(f"{name} (optional)" for name in optional_keys))) or "none"
        fault = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise DimsweepError(f"{fault} in a {kind} fabric", hint=f"its keys: {known}")
    for name, number in given.items():
        whole = name != "oversubscription"
        if isinstance(number, bool) or not isinstance(number, int if whole else (int, float)):
            raise DimsweepError(f"{number!r} is no {'whole ' if whole else ''}number", where=name)
    return fabric(**given)
