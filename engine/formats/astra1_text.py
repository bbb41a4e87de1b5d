"""ASTRA-sim 1.0 workload text: one layer a line, twelve columns.

    name  reserved  (ns  type  bytes) of forward, input-grad and weight-grad  update

The file may start with ASTRA-sim's two header lines (the policy of parallelism, the number of
layers); LIBRA's files have none.  The first one must agree with the plan that the layers run under,
and says how they run (:mod:`engine.formats.astra1_policy`).  The update time is read and, as in
LIBRA, not simulated.
"""

from collections.abc import Mapping
from pathlib import Path

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.astra1_policy import Policy
from dimsweep.engine.formats.content import read_text
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Compute
from dimsweep.engine.workload.layers import Communication, Layer, Pass

_KINDS = {
    "ALLREDUCE": CollectiveKind.ALL_REDUCE,
    "REDUCESCATTER": CollectiveKind.REDUCE_SCATTER,
    "ALLGATHER": CollectiveKind.ALL_GATHER,
    "ALLTOALL": CollectiveKind.ALL_TO_ALL,
}
PASSES = ("forward", "input_grad", "weight_grad")
_COLUMNS = 12
_MAX_NANOSECONDS = 2**62 // 1000


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
    expected = policy = None
    # Without a header the first line is a layer, of twelve words.
    is_layer = len(lines[0][1]) == _COLUMNS and not Policy.begins(lines[0][1])
    if not is_layer and len(lines) > 1 and len(lines[1][1]) == 1:
        policy = Policy(lines[0][1], f"{path}:{lines[0][0]}")
        if degrees is not None:
            policy.check(groups, degrees)
        groups = policy.groups(groups)
        expected = _count(lines[1][1][0], f"{path}:{lines[1][0]}")
        lines = lines[2:]
    if not lines:
        raise DimsweepError("the workload is empty: no line after the header", where=str(path))
    layers = [_layer(words, groups, f"{path}:{number}") for number, words in lines]
    if expected is not None and expected != len(layers):
        raise DimsweepError(
            f"the header promises {expected} layers, the file has {len(layers)}", where=str(path)
        )
    return layers if policy is None else policy.applied(layers)


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
    forward, input_grad, weight_grad = (
        _pass(words[2 + 3 * i : 5 + 3 * i], groups[name], f"{where} ({name})")
        for i, name in enumerate(PASSES)
    )
    return Layer(words[0], forward, input_grad, weight_grad)


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
