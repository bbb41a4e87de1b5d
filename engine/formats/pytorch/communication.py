"""What a collective, send or receive of PyTorch says of itself, in either of its traces."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType
from dimsweep.engine.formats.pytorch.host import HostOp

# The first that a name contains; so "reduce" only after what contains it.
_WORDS = {
    "allreduce": CollectiveType.ALL_REDUCE,
    "reducescatter": CollectiveType.REDUCE_SCATTER,
    "allgather": CollectiveType.ALL_GATHER,
    "alltoall": CollectiveType.ALL_TO_ALL,
    "broadcast": CollectiveType.BROADCAST,
    "barrier": CollectiveType.BARRIER,
    "reduce": CollectiveType.REDUCE,
    "gather": CollectiveType.GATHER,
    "scatter": CollectiveType.SCATTER,
}
_NAMES = ("nccl:", "c10d::")  # of operators that say what they communicate
_NO_LETTER = re.compile(r"[^a-z]")
_BITS = re.compile(r"(\d+)")
_BYTES = {  # c10's names that do not say their bits
    "byte": 1, "char": 1, "bool": 1, "short": 2, "half": 2, "int": 4, "float": 4, "long": 8,
    "double": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Communication:
    """A node's type and, as Chakra counts, its bytes; ``group`` by PyTorch's name, "" unknown."""

    type: NodeType
    collective: CollectiveType | None
    n_bytes: int
    group: str
    peer: int | None = None


def is_communication(name: str) -> bool:
    """Whether a kernel communicates, by its name."""
    return "nccl" in name.lower()


def of_host(op: HostOp) -> Communication | None:
    """What an operator communicates, if that is what it does."""
    if op.name == "record_param_comms":
        return _communication(op.attributes, str(op.attributes.get("collective_name", "")), op)
    if op.name.startswith("gloo:"):
        return _communication({}, op.name.removeprefix("gloo:"), op)
    return None


def of_kernel(name: str, arguments: Mapping[str, Any], callers: Iterable[HostOp]) -> Communication:
    """What a kernel communicates; ``callers`` are the operator that launched it, and its callers.

    Raises :class:`DimsweepError` if nothing says what it is.
    """
    known = {_host_name(key): value for key, value in arguments.items()}
    names = [str(arguments.get("Collective name", ""))]
    recorded = None
    for op in callers:
        names.append(str(op.attributes.get("collective_name", "")))
        names += [op.name] if op.name.startswith(_NAMES) else []
        recorded = recorded or (op if op.name == "record_param_comms" else None)
        if recorded is op:
            known = {**op.attributes, **known}
    # A kernel's own name comes last: SendRecv does all-to-alls as well.
    for word in (*names, name):
        found = _communication(known, word, recorded)
        if found is not None:
            return found
    raise DimsweepError(f"the kernel {name!r} does not say what it communicates")


def _host_name(key: str) -> str:
    """A kernel's argument by the name that the host's trace gives it."""
    named = {"Process Group Name": "pg_name", "Src Rank": "src_rank", "Dst Rank": "dst_rank"}
    return named.get(key, key.lower().replace(" ", "_"))


def _communication(known: Mapping[str, Any], name: str, op: HostOp | None) -> Communication | None:
    word = _NO_LETTER.sub("", name.lower())  # of nccl:send 0->1, _allgather_base, c10d::recv_
    group = str(known.get("pg_name", ""))
    collective = next((kind for key, kind in _WORDS.items() if key in word), None)
    if collective is CollectiveType.SCATTER and "group_size" in known:
        # Only the root has all of it; every member knows its part.
        size = _size(known, "out_msg_nelems", op) * _whole(known, "group_size")
        return Communication(NodeType.COMM_COLL, collective, size, group)
    if collective is not None:
        size = _size(known, "in_msg_nelems", op)
        return Communication(NodeType.COMM_COLL, collective, size, group)
    if word.endswith("send"):
        peer, size = _peer(known, "dst_rank", name), _size(known, "in_msg_nelems", op)
        return Communication(NodeType.COMM_SEND, None, size, group, peer)
    if word.endswith(("recv", "recvanysource")) and "send" not in word:
        peer, size = _peer(known, "src_rank", name), _size(known, "out_msg_nelems", op)
        return Communication(NodeType.COMM_RECV, None, size, group, peer)
    return None


def _peer(known: Mapping[str, Any], key: str, name: str) -> int:
    if key not in known:
        raise DimsweepError(
            f"{name!r} does not say its peer ({key})", hint="a profile of a newer PyTorch does"
        )
    return _whole(known, key)


def _whole(known: Mapping[str, Any], key: str) -> int:
    value = known[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**60:
        raise DimsweepError(f"{value!r} is no number of {key}")
    return value


def _size(known: Mapping[str, Any], elements: str, op: HostOp | None) -> int:
    """Bytes by the recorded elements; else those of the tensors that went in."""
    if elements in known and "dtype" in known:
        return _whole(known, elements) * _element_bytes(str(known["dtype"]))
    return sum(tensor.n_bytes for tensor in op.inputs) if op is not None else 0


def _element_bytes(dtype: str) -> int:
    """Bytes of one element of c10's types: Float, BFloat16, Float8_e4m3fn, Long..."""
    name = dtype.lower()
    bits = _BITS.search(name)
    if "complex" in name:
        raise DimsweepError(f"messages of the type {dtype!r} are not read")
    if bits:
        return int(bits[1]) // 8
    if name not in _BYTES:
        raise DimsweepError(f"unknown type of elements {dtype!r}", hint=", ".join(_BYTES))
    return _BYTES[name]
