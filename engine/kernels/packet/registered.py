"""Records to which the registered transports give their fields."""

import dataclasses
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from engine.cluster.transports import TRANSPORTS, Transport
from engine.kernels.packet.state import FLOW, in_lines
from engine.kernels.packet.tcp import Tcp
from engine.lower.program import Table

_TYPES = {bool: "?", int: "i8", float: "f8"}


def flow_record() -> np.dtype[np.void]:
    """What is known of a flow; what its transport keeps has the transport's name.

    The flows of a run have one transport, so each one's fields lie where another has its own.
    """
    return _flow_record(tuple(TRANSPORTS.values()))


@cache
def _flow_record(transports: tuple[type[Transport], ...]) -> np.dtype[np.void]:
    common: Any = np.dtype(FLOW, align=True)
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
    return np.dtype([(name, _record(of)) for name, of in names.items()], align=True)


def _record(of: type[Transport]) -> Any:
    """The keys of a transport; of one that has none, a byte that says that it is registered."""
    types = get_type_hints(of)
    return [(each.name, _TYPES[types[each.name]]) for each in dataclasses.fields(of)] or "i1"
