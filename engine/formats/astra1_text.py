"""ASTRA-sim 1.0 workload text: one layer a line, twelve columns.

    name  reserved  (ns  type  bytes) of forward, input-grad and weight-grad  update

The file may start with ASTRA-sim's two header lines (parallelism, number of layers); LIBRA's files
have none.  The first one must agree with the plan that the layers run under.  The update time is
read and, as in LIBRA, not simulated.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.errors import DimsweepError
from engine.formats.content import read_text
from engine.kinds import CollectiveKind
from engine.workload.graph import Compute
from engine.workload.layers import Communication, Layer, Pass

_KINDS = {
    "ALLREDUCE": CollectiveKind.ALL_REDUCE,
    "REDUCESCATTER": CollectiveKind.REDUCE_SCATTER,
    "ALLGATHER": CollectiveKind.ALL_GATHER,
    "ALLTOALL": CollectiveKind.ALL_TO_ALL,
}
PASSES = ("forward", "input_grad", "weight_grad")
_COLUMNS = 12
_MAX_NANOSECONDS = 2**62 // 1000


# Parallelism of the first line, and whether its layers are divided among model-parallel NPUs.
_DIVIDED = {
    "DATA": False,
    "MODEL": True,
    "HYBRID_DATA_MODEL": True,
    "HYBRID_MODEL_DATA": True,
    "HYBRID_TRANSFORMER": True,
}
_GROUP = "model_parallel_npu_group:"  # precedes the number of model-parallel NPUs


def read_layers(
    path: Path, groups: Mapping[str, str], degrees: Mapping[str, int] | None = None
) -> list[Layer]:
    """The layers in the file; ``groups`` names the process group of each of :data:`PASSES`.

    ``degrees`` are the members of each group, where they are known: the header must not say
    otherwise.  Raises :class:`DimsweepError` naming file and line for anything malformed, for
    another parallelism than that of ``degrees``, and for one that is not simulated.
    """
    lines = [
        (n, line.split())
        for n, line in enumerate(read_text(path, "workload").splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise DimsweepError("the workload is empty", where=str(path))
    expected = None
    # Without a header the first line is a layer; twelve words tell.
    if len(lines[0][1]) != _COLUMNS and len(lines) > 1 and len(lines[1][1]) == 1:
        _check_parallelism(lines[0][1], groups, degrees, f"{path}:{lines[0][0]}")
        expected = _count(lines[1][1][0], f"{path}:{lines[1][0]}")
        lines = lines[2:]
    if not lines:
        raise DimsweepError("the workload is empty: no line after the header", where=str(path))
    layers = [_layer(words, groups, f"{path}:{number}") for number, words in lines]
    if expected is not None and expected != len(layers):
        raise DimsweepError(
            f"the header promises {expected} layers, the file has {len(layers)}", where=str(path)
        )
    return layers


def _check_parallelism(
    words: list[str], groups: Mapping[str, str], degrees: Mapping[str, int] | None, where: str
) -> None:
    """Refuse a header that would be simulated as something else than it says."""
    kind = words[0].upper()
    if kind not in _DIVIDED:
        again = kind.endswith("_FWD_IN_BCKWD")
        raise DimsweepError(
            f"{words[0]} is not simulated"
            + (": its backward pass computes layers again from checkpoints" if again else ""),
            where=where,
            hint=f"one of {', '.join(_DIVIDED)}; workload=transformer_1t and the other models know "
            "recomputation (workload.plan.recompute)",
        )
    if degrees is None:
        return
    axis = groups["forward"]
    ours, theirs = degrees.get(axis, 1), _model_parallel(words, where)
    if not _DIVIDED[kind]:
        theirs = 1
    if (theirs is None and ours == 1) or (theirs is not None and ours != theirs):
        said = "several" if theirs is None else theirs
        raise DimsweepError(
            f"{words[0]} has {said} model-parallel NPUs, but the plan's {axis!r} has {ours}",
            where=where,
            hint=f"workload.parallel={{{axis}: {theirs or 'N'}, data: rest}}",
        )


def _model_parallel(words: list[str], where: str) -> int | None:
    """The number of model-parallel NPUs, if the header gives one."""
    lower = [word.lower() for word in words]
    if _GROUP not in lower:
        return None
    after = words[lower.index(_GROUP) + 1 :]
    if not (after and after[0].isascii() and after[0].isdigit()):
        raise DimsweepError("no number follows model_parallel_NPU_group:", where=where)
    return int(after[0])


def _count(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise DimsweepError(f"{word!r} is not the number of layers", where=where)
    return int(word)


def _layer(words: list[str], groups: Mapping[str, str], where: str) -> Layer:
    if len(words) != _COLUMNS:
        raise DimsweepError(
            f"{len(words)} columns instead of {_COLUMNS}",
            where=where,
            hint="name, reserved, three times (ns, type, bytes), update time",
        )
    _number(words[11], where, "the update time")
    passes = [
        _pass(words[2 + 3 * i : 5 + 3 * i], groups[name], f"{where} ({name})")
        for i, name in enumerate(PASSES)
    ]
    return Layer(words[0], *passes)


def _pass(words: list[str], group: str, where: str) -> Pass:
    nanoseconds = _number(words[0], where, "the compute time")
    n_bytes = _number(words[2], where, "the message size")
    compute = Compute(duration=round(nanoseconds * 1000))
    kind = words[1].upper()
    if kind == "NONE":
        return Pass(compute)
    if kind not in _KINDS:
        raise DimsweepError(
            f"unknown collective {words[1]!r}", where=where, hint=f"NONE, {', '.join(_KINDS)}"
        )
    return Pass(compute, Communication(_KINDS[kind], n_bytes, group))


def _number(word: str, where: str, what: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise DimsweepError(f"{what} {word!r} is not a number", where=where) from None
    if not 0 <= number <= _MAX_NANOSECONDS:
        raise DimsweepError(f"{what} {word!r} is out of range", where=where)
    return number
