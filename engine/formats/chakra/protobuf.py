"""Chakra's protobuf schema 0.0.4, and the conversion of its messages to and from trace objects.

The schema is built when imported: no compiler, no generated code.  ``Node`` is the node of the
schema.  ``Shell`` is an equal node on the wire, but its attributes are left as bytes: there are few
different ones, so each is worth decoding once (see :class:`Decoder`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.trace import (
    NodeType,
    Scalar,
    TensorInfo,
    Trace,
    TraceNode,
    Value,
)

_PACKAGE = "ChakraProtoMsg"
_Field = descriptor_pb2.FieldDescriptorProto
# In the order of their numbers in AttributeProto: 3 is double_val, 4 double_list, 5 float_val...
_SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
VALUE_FIELDS = frozenset(f"{scalar}_{form}" for scalar in _SCALARS for form in ("val", "list"))


def _add(message: Any, name: str, number: int, type_name: str, repeated: bool = False) -> Any:
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if type_name in _SCALARS:
        field.type = getattr(_Field, f"TYPE_{type_name.upper()}")
    else:
        field.type = _Field.TYPE_ENUM if type_name == "NodeType" else _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{type_name}"
    return field


def _attribute(file: Any) -> None:
    attribute = file.message_type.add(name="AttributeProto")
    _add(attribute, "name", 1, "string")
    _add(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for number, scalar in zip(range(3, 33, 2), _SCALARS, strict=True):
        values = file.message_type.add(name=f"{scalar.capitalize()}List")
        _add(values, "values", 1, scalar, repeated=True)
        _add(attribute, f"{scalar}_val", number, scalar).oneof_index = 0
        _add(attribute, f"{scalar}_list", number + 1, values.name).oneof_index = 0


def _node(file: Any, name: str, attribute: str) -> None:
    node = file.message_type.add(name=name)
    _add(node, "id", 1, "uint64")
    _add(node, "name", 2, "string")
    _add(node, "type", 3, "NodeType")
    _add(node, "ctrl_deps", 4, "uint64", repeated=True)
    _add(node, "data_deps", 5, "uint64", repeated=True)
    _add(node, "start_time_micros", 6, "uint64")
    _add(node, "duration_micros", 7, "uint64")
    _add(node, "inputs", 8, "IOInfo")
    _add(node, "outputs", 9, "IOInfo")
    _add(node, "attr", 10, attribute, repeated=True)


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=_PACKAGE)
    file.syntax = "proto3"
    _attribute(file)
    metadata = file.message_type.add(name="GlobalMetadata")
    _add(metadata, "version", 1, "string")
    _add(metadata, "attr", 2, "AttributeProto", repeated=True)
    types = file.enum_type.add(name="NodeType")
    for node_type in NodeType:
        types.value.add(name=f"{node_type.name}_NODE", number=node_type)
    tensors = file.message_type.add(name="IOInfo")
    for number, name in enumerate(("values", "shapes", "types", "strides"), 1):
        _add(tensors, name, number, "string")
    _node(file, "Node", "AttributeProto")
    _node(file, "Shell", "bytes")
    return file


# A separate pool, so that Chakra's own package can be imported as well.
_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_file().SerializeToString())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Attribute = _message("AttributeProto")
GlobalMetadata = _message("GlobalMetadata")
Node = _message("Node")
Shell = _message("Shell")


def implied_field(value: Value) -> str:
    """Return the name of the schema's field for a value of this Python type; "" for no value."""
    if value is None:
        return ""
    if not isinstance(value, tuple):
        return f"{_scalar(value)}_val"
    scalars = {_scalar(item) for item in value} or {"int64"}
    if scalars == {"int64", "uint64"}:
        scalars = {"uint64"}
    if len(scalars) > 1:
        raise DimsweepError(
            f"a list of {' and '.join(sorted(scalars))} is not possible", code="unsupported"
        )
    return f"{scalars.pop()}_list"


def _scalar(value: Scalar) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int64" if -(2**63) <= value < 2**63 else "uint64"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
    raise DimsweepError(f"{value!r} is not a value for an attribute", code="wrong-type")


_TYPES = {int(node_type): node_type for node_type in NodeType}
# Fields that the type of a value implies.
_IMPLIED = frozenset(f"{scalar}_val" for scalar in ("int64", "double", "bool", "string", "bytes"))
Attributes = tuple[Mapping[str, Value], Mapping[str, str]]  # values, kinds


class Decoder:
    """Decoder of nodes that caches decoded attributes, since most nodes repeat earlier ones."""

    def __init__(self) -> None:
        self._attributes: dict[tuple[bytes, ...], Attributes] = {}

    def node(self, raw: bytes) -> TraceNode:
        shell = _parse(Shell, raw)
        node_type = _TYPES.get(shell.type)
        if node_type is None:
            problem = f"id {shell.id} has the unknown type {shell.type}"
            raise DimsweepError(
                problem, hint=f"schema 0.0.4 has types 0 to {max(NodeType)}", code="unknown-name"
            )
        # A slice copies a repeated field in C; tuple() alone would ask for each item.
        key = tuple(shell.attr[:])
        attributes = self._attributes.get(key)
        if attributes is None:
            messages = [_parse(Attribute, attribute) for attribute in key]
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
    """Return the schema version and the attributes in a trace's metadata message."""
    metadata = _parse(GlobalMetadata, raw)
    for attribute in metadata.attr:
        _refuse_unknown(attribute)
    return metadata.version, decode_attributes(metadata.attr)


def decode_attributes(messages: Sequence[Any]) -> Attributes:
    """Return the values of attributes by name, and the schema's field of each."""
    values: dict[str, Value] = {}
    kinds: dict[str, str] = {}
    for message in messages:
        name = message.name
        if name in values:
            raise DimsweepError(f"attribute {name!r} is given twice", code="duplicate")
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
        problem = (
            f"these {len(raw)} bytes are not a {kind.DESCRIPTOR.name.replace('Shell', 'Node')}"
        )
        raise DimsweepError(problem, code="damaged") from None
    _refuse_unknown(message)
    return message


def _refuse_unknown(message: Any) -> None:
    # Protobuf skips unknown fields, even a dependency whose tag lost a bit.
    unknown = UnknownFieldSet(message)
    if len(unknown):
        name = message.DESCRIPTOR.name.replace("Shell", "Node")
        raise DimsweepError(
            f"field {unknown[0].field_number} of {name} does not follow schema 0.0.4",
            hint="the trace is damaged, or of a newer schema",
            code="unsupported",
        )


def encode_metadata(trace: Trace) -> Any:
    """Return the metadata of a trace as a protobuf message."""
    try:
        message = GlobalMetadata(version=trace.version)
    except (TypeError, ValueError) as error:
        raise DimsweepError(f"the version cannot be written: {error}", code="wrong-type") from error
    _encode_attributes(message, trace.metadata, trace.kinds)
    return message


def encode_node(node: TraceNode) -> Any:
    """Return a node as a protobuf message."""
    try:
        message = Node(
            id=node.id,
            name=node.name,
            type=int(node.type),
            data_deps=node.data_dependencies,
            ctrl_deps=node.control_dependencies,
            start_time_micros=node.start_micros,
            duration_micros=node.duration_micros,
            inputs=None if node.inputs is None else node.inputs._asdict(),
            outputs=None if node.outputs is None else node.outputs._asdict(),
        )
    except (TypeError, ValueError) as error:  # out of range, half a character...
        raise DimsweepError(f"it cannot be written: {error}", code="wrong-type") from error
    _encode_attributes(message, node.attributes, node.kinds)
    return message


def _encode_attributes(
    owner: Any, attributes: Mapping[str, Value], kinds: Mapping[str, str]
) -> None:
    for name, value in attributes.items():
        try:
            field = kinds.get(name) or implied_field(value)
            _encode_value(owner.attr.add(name=name), field, value)
        except (TypeError, ValueError, DimsweepError) as error:
            raise DimsweepError(
                f"attribute {name!r} cannot be written: {error}", code="wrong-type"
            ) from error


def _encode_value(message: Any, field: str, value: Value) -> None:
    if value is None:
        return
    if field not in VALUE_FIELDS:
        raise DimsweepError(f"{field!r} is not a field of the schema", code="unknown-key")
    if isinstance(value, tuple) != field.endswith("_list"):
        raise DimsweepError(f"{value!r} does not go into {field}", code="wrong-type")
    if isinstance(value, tuple):
        values = getattr(message, field)
        values.SetInParent()  # an empty list is a value, too
        values.values.extend(value)
    else:
        setattr(message, field, value)
