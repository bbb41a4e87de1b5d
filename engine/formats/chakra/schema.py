"""Chakra's protobuf schema 0.0.4, built when imported: no compiler, no generated code.

``Node`` is the node of the schema.  ``Shell`` is the same node on the wire, but its attributes are
left as bytes: there are few different ones, so each is worth decoding once (see ``decode``).
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dimsweep.engine.formats.chakra.trace import NodeType

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


# A pool of its own, so that Chakra's own package may be imported beside it.
_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_file().SerializeToString())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Attribute = _message("AttributeProto")
GlobalMetadata = _message("GlobalMetadata")
Node = _message("Node")
Shell = _message("Shell")
