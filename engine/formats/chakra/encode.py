"""From the objects of a trace to protobuf messages."""

from collections.abc import Mapping
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import schema
from dimsweep.engine.formats.chakra.trace import Trace, TraceNode, Value
from dimsweep.engine.formats.chakra.values import implied_field


def encode_metadata(trace: Trace) -> Any:
    try:
        message = schema.GlobalMetadata(version=trace.version)
    except (TypeError, ValueError) as error:
        raise DimsweepError(f"the version cannot be written: {error}") from error
    _encode_attributes(message, trace.metadata, trace.kinds)
    return message


def encode_node(node: TraceNode) -> Any:
    try:
        message = schema.Node(
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
        raise DimsweepError(f"it cannot be written: {error}") from error
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
            raise DimsweepError(f"attribute {name!r} cannot be written: {error}") from error


def _encode_value(message: Any, field: str, value: Value) -> None:
    if value is None:
        return
    if field not in schema.VALUE_FIELDS:
        raise DimsweepError(f"{field!r} is not a field of the schema")
    if isinstance(value, tuple) != field.endswith("_list"):
        raise DimsweepError(f"{value!r} does not go into {field}")
    if isinstance(value, tuple):
        values = getattr(message, field)
        values.SetInParent()  # an empty list is a value, too
        values.values.extend(value)
    else:
        setattr(message, field, value)
