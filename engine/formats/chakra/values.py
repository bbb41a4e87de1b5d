"""Which of the schema's thirty fields a Python value goes into."""

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.trace import Scalar, Value


def implied_field(value: Value) -> str:
    """The schema's field for a value when nothing else is said; "" for no value."""
    if value is None:
        return ""
    if not isinstance(value, tuple):
        return f"{_scalar(value)}_val"
    scalars = {_scalar(item) for item in value} or {"int64"}
    if scalars == {"int64", "uint64"}:
        scalars = {"uint64"}
    if len(scalars) > 1:
        raise DimsweepError(f"a list of {' and '.join(sorted(scalars))} is not possible")
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
    raise DimsweepError(f"{value!r} is not a value for an attribute")
