"""From protobuf messages to the objects of a trace."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import schema
from dimsweep.engine.formats.chakra.trace import NodeType, TensorInfo, TraceNode, Value
from dimsweep.engine.formats.chakra.values import implied_field

_TYPES = {int(node_type): node_type for node_type in NodeType}
# Fields whose values imply them, whatever they are.
_IMPLIED = frozenset(f"{scalar}_val" for scalar in ("int64", "double", "bool", "string", "bytes"))
Attributes = tuple[Mapping[str, Value], Mapping[str, str]]  # values, kinds


class Decoder:
    """Decodes nodes; remembers attributes, as most nodes have those of an earlier one."""

    def __init__(self) -> None:
        self._attributes: dict[tuple[bytes, ...], Attributes] = {}

    def node(self, raw: bytes) -> TraceNode:
        shell = _parse(schema.Shell, raw)
        node_type = _TYPES.get(shell.type)
        if node_type is None:
            what = f"id {shell.id} is of the unknown type {shell.type}"
            raise DimsweepError(what, hint=f"schema 0.0.4 has types 0 to {max(NodeType)}")
        # A slice copies a repeated field in C; tuple() alone would ask for each item.
        key = tuple(shell.attr[:])
        attributes = self._attributes.get(key)
        if attributes is None:
            messages = [_parse(schema.Attribute, attribute) for attribute in key]
            attributes = self._attributes[key] = decode_attributes(messages)
        return TraceNode(
            shell.id,
            shell.name,
            node_type,
            tuple(shell.data_deps[:]),
            tuple(shell.ctrl_deps[:]),
            shell.start_time_micros,
            shell.duration_micros,
            *attributes,
            _tensors(shell.inputs) if shell.HasField("inputs") else None,
            _tensors(shell.outputs) if shell.HasField("outputs") else None,
        )


def decode_metadata(raw: bytes) -> tuple[str, Attributes]:
    """The version of the schema, and the attributes of the trace."""
    metadata = _parse(schema.GlobalMetadata, raw)
    for attribute in metadata.attr:
        _refuse_unknown(attribute)
    return metadata.version, decode_attributes(metadata.attr)


def decode_attributes(messages: Sequence[Any]) -> Attributes:
    values: dict[str, Value] = {}
    kinds: dict[str, str] = {}
    for message in messages:
        name = message.name
        if name in values:
            raise DimsweepError(f"attribute {name!r} is given twice")
        field = message.WhichOneof("value") or ""
        value: Any = getattr(message, field) if field else None
        if field.endswith("_list"):
            _refuse_unknown(value)
            value = tuple(value.values[:])
        values[name] = value
        if field not in _IMPLIED and field != implied_field(value):
            kinds[name] = field
    return values, kinds


def _tensors(message: Any) -> TensorInfo:
    _refuse_unknown(message)
    return TensorInfo(message.values, message.shapes, message.types, message.strides)


def _parse(kind: Any, raw: bytes) -> Any:
    try:
        message = kind.FromString(raw)
    except DecodeError:
        what = f"these {len(raw)} bytes are no {kind.DESCRIPTOR.name.replace('Shell', 'Node')}"
        raise DimsweepError(what) from None
    _refuse_unknown(message)
    return message


def _refuse_unknown(message: Any) -> None:
    # Protobuf skips what it does not know, also a dependency whose tag lost a bit.
    unknown = UnknownFieldSet(message)
    if len(unknown):
        name = message.DESCRIPTOR.name.replace("Shell", "Node")
        raise DimsweepError(
            f"field {unknown[0].field_number} of {name} is not what schema 0.0.4 says",
            hint="the trace is damaged, or of a newer schema",
        )
