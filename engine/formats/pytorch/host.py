"""What the host did: the operators in a file of PyTorch's ExecutionTraceObserver.

A node has an id, a name, a parent (``ctrl_deps``), inputs and outputs (values, shapes, types), and
attributes: ``rf_id`` numbers calls as the profiler does, ``tid`` threads.  A tensor among the
values is [id, storage, offset, elements, bytes of one, device].

The first schema, 1.0.1, has the same under other keys: ``parent``, ``input_shapes``, and every
attribute as a key of the node.  Schemas before 1.1 have no attributes of communication: the name
and the process group are among the inputs of ``record_param_comms``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_head
from dimsweep.engine.formats.fields import read_json
from dimsweep.engine.formats.pytorch.files import Group, first_fault, names

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:')
_ROOT = ("[pytorch|profiler|", "__ROOT_")  # the process, and its threads
_SCHEMA = re.compile(r"1\.\d+(\.\d+)?(-chakra.*)?")
_COMMUNICATES = "record_param_comms"
_GROUPS = "process_group:init"


class Tensor(NamedTuple):
    storage: int
    n_bytes: int


@dataclass(frozen=True)
class HostOp:
    """An operator of the host; ``parent`` is the one that called it, if any."""

    id: int
    name: str
    parent: int | None
    thread: int
    call: int  # rf_id
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    shapes: Any  # of the inputs, as the trace has them
    types: Any


@dataclass(frozen=True)
class HostTrace:
    """The operators by id, callers before those they call, and the ranks of process groups."""

    path: Path
    operators: dict[int, HostOp]
    groups: Mapping[str, Sequence[int]]  # an empty list is all ranks


def is_execution_trace(path: Path) -> bool:
    """Whether a file looks like one: Chakra's own JSON form begins otherwise."""
    return bool(_HEAD.match(read_head(path, 4096)))


def read_host(path: Path) -> HostTrace:
    """Raises :class:`DimsweepError` naming file and node for what is no execution trace."""
    content = read_json(path, "execution trace")
    nodes = content.get("nodes")
    if not _SCHEMA.fullmatch(str(content.get("schema"))) or not isinstance(nodes, list):
        raise DimsweepError(
            f"this is no execution trace of a schema that is known ({content.get('schema')!r})",
            where=str(path),
            hint="what ExecutionTraceObserver of PyTorch 2 writes, such as 1.1.1-chakra.0.0.4",
        )
    operators: dict[int, HostOp] = {}
    groups: dict[str, Sequence[int]] = {}
    roots = set()
    for number, node in enumerate(nodes, 1):
        where = f"{path}: node {number}"
        try:
            node = _renamed(node)
            named = _Named.model_validate(node)
            if _GROUPS in named.name:
                groups |= names(_process_groups(node))
                roots.add(named.id)
            elif named.name.startswith(_ROOT):
                roots.add(named.id)
            else:
                operators[named.id] = _operator(_Node.model_validate(node))
        except ValidationError as error:
            what = f"it is not as the schema says: {first_fault(error)}"
            raise DimsweepError(what, where=where) from error
        except RecursionError as error:
            raise DimsweepError("it is nested too deeply", where=where) from error
    if not operators:
        hint = "run the model between start() and stop() of the ExecutionTraceObserver"
        raise DimsweepError("no operators were recorded", where=str(path), hint=hint)
    known = operators.keys() | roots
    for operator in operators.values():
        if operator.parent not in known:
            what = f"its parent {operator.parent} is not in the trace"
            raise DimsweepError(what, where=f"{path}: node id {operator.id} ({operator.name!r})")
    return HostTrace(path, _called(operators), groups)


class _Named(BaseModel):
    id: int
    name: str


class _Attribute(BaseModel):
    name: str
    value: Any


class _Values(BaseModel):
    values: Any
    shapes: Any = None
    types: Any = None


class _Node(_Named):
    ctrl_deps: int
    inputs: _Values
    outputs: _Values
    attrs: list[_Attribute]


class _Numbers(BaseModel):
    """Attributes of an operator that are numbers."""

    tid: int = 0
    rf_id: int = 0


def _renamed(node: Any) -> Any:
    """Return a node of schema 1.0.1 under the keys of the later ones, and any other as it is."""
    if not isinstance(node, dict) or "attrs" in node or "parent" not in node:
        return node
    values = {
        name: {"values": node.get(name), "shapes": node.get(f"{key}_shapes")}
        | {"types": node.get(f"{key}_types")}
        for name, key in (("inputs", "input"), ("outputs", "output"))
    }
    attributes = [{"name": key, "value": node[key]} for key in ("rf_id", "tid") if key in node]
    return {**node, **values, "ctrl_deps": node["parent"], "attrs": attributes}


def _operator(node: _Node) -> HostOp:
    attributes = {item.name: item.value for item in node.attrs}
    if node.name == _COMMUNICATES and "collective_name" not in attributes:
        attributes |= _communicated(node.inputs.values)
    numbers = _Numbers.model_validate(attributes)
    return HostOp(
        node.id,
        node.name,
        node.ctrl_deps,
        numbers.tid,
        numbers.rf_id,
        tuple(_tensors(node.inputs.values)),
        tuple(_tensors(node.outputs.values)),
        attributes,
        node.inputs.shapes,
        node.inputs.types,
    )


def _communicated(values: Any) -> dict[str, Any]:
    """Return the collective and its group from the inputs of ``record_param_comms``.

    The inputs are the tensors (missing in a wait or a barrier), a sequence number, the group (a
    name, or a list of name and description), the rank, the collective, and more.
    """
    if not isinstance(values, list):
        return {}
    rest = values[1:] if values and isinstance(values[0], list) else values
    if len(rest) < 4 or not isinstance(rest[3], str):
        return {}
    group = rest[1][0] if isinstance(rest[1], list) and rest[1] else rest[1]
    return {"collective_name": rest[3], "pg_name": group}


def _tensors(values: Any) -> Iterator[Tensor]:
    """All tensors among values, those in lists as well."""
    if not isinstance(values, list):
        return
    whole = [isinstance(value, int) and not isinstance(value, bool) for value in values]
    if whole == [True] * 5 + [False] and isinstance(values[5], str):
        _, storage, _, elements, n_bytes, _ = values
        yield Tensor(storage, elements * n_bytes)
        return
    for value in values:
        yield from _tensors(value)


class _Texts(BaseModel):
    values: list[Any] = Field(min_length=1)


class _Init(BaseModel):
    """The node whose first input is the JSON of process groups."""

    inputs: _Texts


_GROUP_LIST = TypeAdapter(list[Group])


def _process_groups(node: object) -> list[Group]:
    return _GROUP_LIST.validate_json(str(_Init.model_validate(node).inputs.values[0]))


def _called(operators: Mapping[int, HostOp]) -> dict[int, HostOp]:
    """In the order of the calls; an operator is written when it ends, and numbered when it begins.

    Parents that are no operators (threads) become none.
    """
    calls: dict[int, HostOp] = {}
    for op in sorted(operators.values(), key=lambda op: op.id):
        if op.parent not in operators:
            op = replace(op, parent=None)
        elif op.parent not in calls:
            what = f"its parent {op.parent} was called after it"
            raise DimsweepError(what, where=f"node id {op.id} ({op.name!r})")
        calls[op.id] = op
    return calls
