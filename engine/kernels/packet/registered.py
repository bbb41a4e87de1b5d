"""Transports that are registered, and the records to which they give their fields."""

import dataclasses
import inspect
from enum import Enum
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from dimsweep.engine.cluster.transports import TRANSPORTS, Transport
from dimsweep.engine.kernels.packet.hooks import OF_TCP, Together, together_with
from dimsweep.engine.kernels.packet.rud import Rud
from dimsweep.engine.kernels.packet.state import FLOW, in_lines
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.lower.program import Table

_TYPES = {bool: "?", int: "i8", float: "f8"}
# Whose keys transports have in common that are of these classes.
_SHARED: dict[str, type[Any]] = {"tcp": Tcp, "rud": Rud}


def register(*transports: type[Transport]) -> None:
    """Make transports known by their names, to configurations as to the kernel.

    Raises :class:`TypeError` for one that leaves a case or a question open, and
    :class:`ValueError` for a name that another one has.
    """
    for transport in transports:
        _check(transport)
        TRANSPORTS[transport.name] = transport


def _check(transport: type[Transport]) -> None:
    transport()  # Python refuses one that leaves a case open
    if "__dataclass_fields__" not in vars(transport):
        raise TypeError(f"{transport.__name__} is no frozen dataclass, whose fields are its keys")
    asked = [name for name in inspect.get_annotations(Transport) if not hasattr(transport, name)]
    if asked:
        raise TypeError(f"{transport.__name__} does not say its {', '.join(asked)}")
    if transport.speaks_tcp != issubclass(transport, Tcp):
        told = f"{', '.join(OF_TCP)} are cases of subclasses of Tcp, which alone speak_tcp"
        raise TypeError(f"{transport.__name__}: {told}")
    if TRANSPORTS.get(transport.name, transport) is not transport or transport.name in _SHARED:
        raise ValueError(f"there is a transport {transport.name!r} already")


def number_of(transport: Transport) -> int:
    """Which it is of those that are compiled together."""
    return together_with(type(transport)).transports.index(type(transport))


def flow_record(transport: Transport) -> np.dtype[np.void]:
    """What is known of a flow; what its transport keeps has the transport's name.

    The flows of a run have one transport, so each one's fields lie where another has its own.
    """
    return _flow_record(together_with(type(transport)))


@cache
def _flow_record(together: Together) -> np.dtype[np.void]:
    common: Any = FLOW
    states = {each.name: np.dtype([*each.state], align=True) for each in together.transports}
    states = {name: of for name, of in states.items() if of.itemsize}
    fields = dict(common.fields) | {name: (of, common.itemsize) for name, of in states.items()}
    most = max((of.itemsize for of in states.values()), default=0)
    return in_lines(fields, common.itemsize + most)


def keys_record(transport: Transport) -> Table:
    """The keys, by their names, of all transports that are compiled together, of which
    ``transport`` has filled in its own, and under ``tcp`` and ``rud`` what all share that speak
    so; a member of an enumeration is its place there."""
    record = np.zeros(1, _keys_record(together_with(type(transport))))
    for key, value in vars(transport).items():
        number = [*type(value)].index(value) if isinstance(value, Enum) else value
        record[transport.name][key] = number
        for name, of in _SHARED.items():
            if isinstance(transport, of) and key in of.__dataclass_fields__:
                record[name][key] = number
    return record


@cache
def _keys_record(together: Together) -> np.dtype[np.void]:
    """With a byte by whose name the type says whose hooks are called."""
    names = _SHARED | {each.name: each for each in together.transports}
    fields = [(name, _record(of)) for name, of in names.items()]
    return np.dtype([*fields, (together.version or "ours", "i1")], align=True)


def _record(of: type[Any]) -> Any:
    """The keys of a transport; of one that has none, a byte that says that it is registered."""
    types = get_type_hints(of)
    return [
        (each.name, _TYPES.get(types[each.name], "i8")) for each in dataclasses.fields(of)
    ] or "i1"
