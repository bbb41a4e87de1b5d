"""Records to which the registered transports give their fields."""

import dataclasses
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from dimsweep.engine.cluster.transports import HOOKS, TRANSPORTS, Transport
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.packet.state import FLOW, in_lines
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Table

_TYPES = {bool: "?", int: "i8", float: "f8"}


def flow_record() -> np.dtype[np.void]:
    """What is known of a flow; what its transport keeps has the transport's name.

    The flows of a run have one transport, so each one's fields lie where another has its own.
    """
    return _flow_record(tuple(TRANSPORTS.values()))


@cache
def _flow_record(transports: tuple[type[Transport], ...]) -> np.dtype[np.void]:
    common: Any = FLOW
    states = {each.name: np.dtype([*each.state], align=True) for each in transports if each.state}
    fields = dict(common.fields) | {name: (of, common.itemsize) for name, of in states.items()}
    return in_lines(fields, common.itemsize + max(of.itemsize for of in states.values()))


def keys_record(transport: Transport) -> Table:
    """The keys of all transports by their names, of which ``transport`` has filled in its own, and
    under ``tcp`` what all share that speak it."""
    record = np.zeros(1, _keys_record(tuple(TRANSPORTS.values())))
    for key, value in vars(transport).items():
        record[transport.name][key] = value
        if isinstance(transport, Tcp) and key in Tcp.__dataclass_fields__:
            record["tcp"][key] = value
    return record


@cache
def _keys_record(transports: tuple[type[Transport], ...]) -> np.dtype[np.void]:
    names = {"tcp": Tcp} | {each.name: each for each in transports}
    fields = [(name, _record(of)) for name, of in names.items()]
    return np.dtype([*fields, *filter(None, map(_version, transports))], align=True)


_first: dict[str, str] = {}  # the digest of the first transport of each name


def _version(transport: type[Transport]) -> tuple[str, str] | None:
    """A byte by which the type of the keys differs where another transport had the name before:
    what is compiled for that one must not be taken for this one's code."""
    hooks = [getattr(transport, name) for name in HOOKS]
    digest = "_".join(dict.fromkeys(map(fingerprint, hooks)))
    first = _first.setdefault(transport.name, digest)
    return None if digest == first else (f"{transport.name}_{digest}", "i1")


def _record(of: type[Transport]) -> Any:
    """The keys of a transport; of one that has none, a byte that says that it is registered."""
    types = get_type_hints(of)
    return [(each.name, _TYPES[types[each.name]]) for each in dataclasses.fields(of)] or "i1"
