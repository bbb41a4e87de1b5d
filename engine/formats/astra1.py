"""ASTRA-sim 1.0 workload text: one layer a line, twelve columns.

    name  reserved  (ns  type  bytes) of forward, input-grad and weight-grad  update

The file may start with ASTRA-sim's two header lines (the policy of parallelism, the number of
layers); LIBRA's files have none.  The first one must agree with the plan that the layers run under,
and says how they run (:mod:`engine.formats.astra1`).  The update time is read and, as in
LIBRA, not simulated.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dimsweep.engine.errors import Code, DimsweepError
from dimsweep.engine.formats.reading import read_text
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
    """Return the layers of a workload file of ASTRA-sim 1.0.

    Parameters
    ----------
    path
        The file.
    groups
        The process group of each of :data:`PASSES`.
    degrees
        The number of members of each group, if known; the header must agree with it.

    Raises
    ------
    DimsweepError
        Naming file and line: a malformed line, another parallelism than ``degrees``, or a
        policy that is not simulated.
    """
    lines = [
        (n, line.split())
        for n, line in enumerate(read_text(path, "workload").splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise DimsweepError("the workload is empty", where=str(path), code="missing")
    expected = policy = None
    # Without a header the first line is a layer, of twelve words.
    is_layer = len(lines[0][1]) == _COLUMNS and not Policy.begins(lines[0][1])
    if not is_layer and len(lines) > 1 and len(lines[1][1]) == 1:
        policy = Policy(lines[0][1], f"{path}:{lines[0][0]}")
        if degrees is not None:
            policy.check(groups, degrees)
        groups = policy.groups(groups)
        number, (word,) = lines[1]
        if not (word.isascii() and word.isdigit()):
            problem = f"{word!r} is not the number of layers"
            raise DimsweepError(problem, where=f"{path}:{number}", code="bad-syntax")
        expected = int(word)
        lines = lines[2:]
    if not lines:
        raise DimsweepError(
            "the workload is empty: no line after the header", where=str(path), code="missing"
        )
    layers = [_layer(words, groups, f"{path}:{number}") for number, words in lines]
    if expected is not None and expected != len(layers):
        raise DimsweepError(
            f"the header states {expected} layers, but the file has {len(layers)}",
            where=str(path),
            code="mismatch",
        )
    return layers if policy is None else policy.applied(layers)


def _layer(words: list[str], groups: Mapping[str, str], where: str) -> Layer:
    if len(words) != _COLUMNS:
        raise DimsweepError(
            f"the line has {len(words)} columns; expected {_COLUMNS}",
            where=where,
            hint="name, reserved, three times (ns, type, bytes), update time",
            code="bad-syntax",
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
            f"unknown collective {words[1]!r}",
            where=where,
            hint=f"NONE, {', '.join(_KINDS)}",
            code="unknown-name",
        )
    return Pass(compute, Communication(_KINDS[kind], n_bytes, group))


def _number(word: str, where: str, noun: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise DimsweepError(
            f"{noun} {word!r} is not a number", where=where, code="bad-syntax"
        ) from None
    if not 0 <= number <= _MAX_NANOSECONDS:
        raise DimsweepError(
            f"{noun} {word!r} is not between 0 and {_MAX_NANOSECONDS}",
            where=where,
            code="out-of-range",
        )
    return number


# True for policies that divide layers among model-parallel NPUs; otherwise all NPUs take part in
# all collectives.
_DIVIDED = {
    "DATA": False,
    "MODEL": True,
    "HYBRID_DATA_MODEL": True,
    "HYBRID_MODEL_DATA": True,
    "HYBRID_TRANSFORMER": True,
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": True,
    "HYBRID_DLRM": False,
    "HYBRID_DLRM_ENHANCED": False,
    "DISTRIBUTED_INFERENCE": True,
    "MICRO": False,
}
_GROUP = "model_parallel_npu_group:"  # precedes the number of model-parallel NPUs
_CHECKPOINTS, _INITIATES = "checkpoints:", "checkpoint_initiates:"  # precede numbers of layers
_BOTTOM = "dlrm_last_bottom_layer:"
# SimAI's words: degrees that must be 1, the number of all NPUs, and words of pipelines.
_DEGREES = {"pp:": "pipeline", "ep:": "expert"}
_ALL_GPUS = "all_gpus:"
_OF_PIPELINES = ("vpp:", "ga:", "pp_comm:", "pp_comm")
_LABELS = (_GROUP, _CHECKPOINTS, _INITIATES, _BOTTOM, *_DEGREES, _ALL_GPUS, *_OF_PIPELINES)


class Policy:
    """The header line of an ASTRA-sim 1.0 file: the policy of parallelism, and its settings.

    ``words`` are the words of the line; ``where`` is its place in errors.
    """

    def __init__(self, words: Sequence[str], where: str) -> None:
        self._words, self._where = words, where
        self._lower = [word.lower() for word in words]
        self._kind = words[0].upper()
        if self._kind not in _DIVIDED:
            hint = f"known: {', '.join(_DIVIDED)}"
            raise self._error(f"the policy {words[0]} is not simulated", hint, "unsupported")
        self._check_words()

    def _check_words(self) -> None:
        """Raise :class:`DimsweepError` for unknown words, and unsupported pipelines and experts."""
        for before, word in itertools.pairwise(self._lower):
            if before not in _LABELS and word not in _LABELS and word[0].isalpha():
                hint = f"known: {', '.join(_LABELS)}"
                raise self._error(f"unknown word {word!r}", hint, "unknown-name")
        for label, axis in _DEGREES.items():
            if label in self._lower and (degree := self._number_after(label)) != 1:
                raise self._error(
                    f"{label} {degree}: {axis} parallelism of such files is not simulated",
                    f"set {label} 1, or use a model with a plan, such as workload=gpt3_175b",
                    "unsupported",
                )

    @staticmethod
    def begins(words: Sequence[str]) -> bool:
        """Return whether the words of a line are the start of a header."""
        return words[0].upper() in _DIVIDED

    def groups(self, groups: Mapping[str, str]) -> Mapping[str, str]:
        """Return the process group of each pass; for DLRM, all passes use the gradients' group."""
        if not self._kind.startswith("HYBRID_DLRM"):
            return groups
        return dict.fromkeys(groups, groups["weight_grad"])

    def check(self, groups: Mapping[str, str], degrees: Mapping[str, int]) -> None:
        """Raise :class:`DimsweepError` for a plan that contradicts the header.

        ``degrees`` are the numbers of members of the plan's groups.
        """
        axis = groups["forward"]
        ours, theirs = degrees.get(axis, 1), None if _DIVIDED[self._kind] else 1
        if _DIVIDED[self._kind] and _GROUP in self._lower:
            theirs = self._number_after(_GROUP)
        if (theirs is None and ours == 1) or (theirs is not None and ours != theirs):
            stated = "several" if theirs is None else theirs
            raise self._error(
                f"{self._words[0]} has {stated} model-parallel NPUs, but the plan's {axis!r} has "
                f"{ours}",
                f"set workload.parallel={{{axis}: {theirs or 'N'}, data: rest}}",
                "mismatch",
            )
        n_npus = math.prod(degrees.values())
        if _ALL_GPUS in self._lower and (theirs := self._number_after(_ALL_GPUS)) != n_npus:
            raise self._error(
                f"{_ALL_GPUS} {theirs}, but the plan has {n_npus} NPUs",
                f"choose a topology of {theirs} NPUs",
                "mismatch",
            )

    def applied(self, layers: list[Layer]) -> list[Layer]:
        """Return ``layers`` as the policy runs them, such as with an embedding that joins a layer.

        Raises :class:`DimsweepError` for a header that does not fit the layers.
        """
        match self._kind:
            case "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
                return self._checkpointed(layers)
            case "HYBRID_DLRM" | "HYBRID_DLRM_ENHANCED":
                return [replace(layers[0], joins=self._last_bottom(len(layers))), *layers[1:]]
            case "DISTRIBUTED_INFERENCE":
                return [Layer(layer.name, layer.forward) for layer in layers]
            case "MICRO":
                return [self._benchmark(layers)]
        return layers

    def _checkpointed(self, layers: list[Layer]) -> list[Layer]:
        checkpoints = self._layers_after(_CHECKPOINTS, len(layers))
        initiates = sorted(self._layers_after(_INITIATES, len(layers)))
        layers = list(layers)
        for before, i in zip([-1, *initiates], initiates, strict=False):
            first = max((layer for layer in checkpoints if layer <= i), default=-1)
            if first == i or first <= before:
                raise self._error(
                    f"layer {i} initiates a recomputation, but "
                    + (
                        "is a checkpoint itself"
                        if first == i
                        else "no checkpoint is before it"
                        if first < 0
                        else f"so does layer {before}, between it and its checkpoint, layer {first}"
                    ),
                    "list a checkpoint, some layers, and the initiating layer, numbered from 0",
                )
            layers[i] = replace(layers[i], again=first)
        return layers

    def _last_bottom(self, n: int) -> int:
        if _BOTTOM not in self._lower:
            raise self._error(
                "the last bottom layer is missing",
                f"write {self._words[0]} DLRM_LAST_BOTTOM_LAYER: N",
                "missing",
            )
        last = self._number_after(_BOTTOM)
        if last >= n - 1:
            raise self._error(
                f"no layer follows the last bottom layer, {last}, of {n}",
                "give the number of a layer, from 0; the top layers come after it",
                "out-of-range",
            )
        return last

    def _benchmark(self, layers: Sequence[Layer]) -> Layer:
        first = layers[0]
        if len(layers) > 1 or first.weight_grad.communication is None:
            raise self._error(
                "MICRO runs the weight-gradient collective of a single layer, but the file has "
                + (f"{len(layers)} layers" if len(layers) > 1 else "none"),
                "give one layer, with a collective in its columns of weight gradients",
                "unsupported",
            )
        return Layer(first.name, weight_grad=Pass(communication=first.weight_grad.communication))

    def _layers_after(self, label: str, n: int) -> set[int]:
        """Return the numbers of the layers (of ``n``) that the header lists after ``label``."""
        count = self._number_after(label)
        place = self._lower.index(label) + 2
        words = self._words[place : place + count]
        numbers = {int(word) for word in words if _is_number(word)}
        if len(words) < count or len(numbers) < count or any(layer >= n for layer in numbers):
            raise self._error(
                f"{label} {count} is not followed by {count} different layers of {n}",
                f"write {label} n LAYER..., from 0 to {n - 1}",
                "out-of-range",
            )
        return numbers

    def _number_after(self, label: str) -> int:
        place = self._lower.index(label) + 1 if label in self._lower else len(self._words)
        if place == len(self._words) or not _is_number(self._words[place]):
            word = label if label not in self._lower else self._words[place - 1]
            raise self._error(f"no number follows {word}", f"write {word} N")
        return int(self._words[place])

    def _error(self, problem: str, hint: str, code: Code = "bad-syntax") -> DimsweepError:
        return DimsweepError(problem, where=self._where, hint=hint, code=code)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10
