"""The first line of ASTRA-sim 1.0 text: the policy of parallelism, and what it makes of the layers.

    DATA | MODEL | HYBRID_DATA_MODEL | HYBRID_MODEL_DATA | DISTRIBUTED_INFERENCE | MICRO
    HYBRID_TRANSFORMER model_parallel_NPU_group: N
    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: N
        checkpoints: n LAYER... checkpoint_initiates: n LAYER...
    HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: LAYER        (or HYBRID_DLRM_ENHANCED)

SimAI and AICB (github.com/aliyun/SimAI) add ``ep: N pp: N vpp: N ga: N all_gpus: N pp_comm: N``.
Pipelines and expert parallelism are not simulated, so their degrees must be 1; without a pipeline,
vpp, ga and pp_comm mean nothing in SimAI.  A header with any other word is refused.

Layers count from 0.  What each policy does is that of ASTRA-sim 1.0's workload layer
(Workload.cc), for one iteration:

- FWD_IN_BCKWD: before the input gradients of a layer that initiates, the layers from the nearest
  checkpoint up to it run forward again, with their collectives.
- DLRM: the first layer is the embeddings.  Its exchange forward goes on beside the bottom layers
  and is waited for after the last of them; its exchange backward begins when the input gradients of
  the layer after that are done, and nothing waits for it.  It has no other input gradients.
  ENHANCED differs in the next iteration only.
- DISTRIBUTED_INFERENCE: the layers forward.
- MICRO: the weight-gradient collective of a single layer, and nothing else.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.workload.layers import Layer, Pass

# Whether the layers of a policy are divided among model-parallel NPUs; if not, all NPUs take part
# in all collectives.
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
    """A header line, by its ``words``; ``where`` names it in errors."""

    def __init__(self, words: Sequence[str], where: str) -> None:
        self._words, self._where = words, where
        self._lower = [word.lower() for word in words]
        self._kind = words[0].upper()
        if self._kind not in _DIVIDED:
            raise self._wrong(f"{words[0]} is not simulated", f"one of {', '.join(_DIVIDED)}")
        self._check_words()

    def _check_words(self) -> None:
        """Raise :class:`DimsweepError` for words without a meaning here, and for pipelines and
        experts."""
        for before, word in itertools.pairwise(self._lower):
            if before not in _LABELS and word not in _LABELS and word[0].isalpha():
                raise self._wrong(f"unknown word {word!r}", f"known: {', '.join(_LABELS)}")
        for label, what in _DEGREES.items():
            if label in self._lower and (degree := self._number_after(label)) != 1:
                raise self._wrong(
                    f"{label} {degree}: {what} parallelism of such files is not simulated",
                    f"a workload of layers with {label} 1, or a model with a plan, such as "
                    "workload=gpt3_175b",
                )

    @staticmethod
    def begins(words: Sequence[str]) -> bool:
        """Whether a line begins as a header does."""
        return words[0].upper() in _DIVIDED

    def groups(self, groups: Mapping[str, str]) -> Mapping[str, str]:
        """The process group of each pass, of those that a plan names: all NPUs exchange embeddings,
        as they do gradients."""
        if not self._kind.startswith("HYBRID_DLRM"):
            return groups
        return dict.fromkeys(groups, groups["weight_grad"])

    def check(self, groups: Mapping[str, str], degrees: Mapping[str, int]) -> None:
        """Raise :class:`DimsweepError` for a plan that would be simulated as something else than
        the header says; ``degrees`` are the members of its groups."""
        axis = groups["forward"]
        ours, theirs = degrees.get(axis, 1), self._model_parallel()
        if not _DIVIDED[self._kind]:
            theirs = 1
        if (theirs is None and ours == 1) or (theirs is not None and ours != theirs):
            said = "several" if theirs is None else theirs
            raise self._wrong(
                f"{self._words[0]} has {said} model-parallel NPUs, but the plan's {axis!r} has "
                f"{ours}",
                f"workload.parallel={{{axis}: {theirs or 'N'}, data: rest}}",
            )
        n_npus = math.prod(degrees.values())
        if _ALL_GPUS in self._lower and (theirs := self._number_after(_ALL_GPUS)) != n_npus:
            raise self._wrong(
                f"{_ALL_GPUS} {theirs}, but the plan has {n_npus} NPUs",
                f"a topology of {theirs} NPUs",
            )

    def applied(self, layers: list[Layer]) -> list[Layer]:
        """The layers as the policy runs them.  Raises :class:`DimsweepError` for a header that does
        not fit them."""
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

    def _model_parallel(self) -> int | None:
        """The number of model-parallel NPUs, if the header gives one."""
        return self._number_after(_GROUP) if _GROUP in self._lower else None

    def _checkpointed(self, layers: list[Layer]) -> list[Layer]:
        checkpoints = self._layers_after(_CHECKPOINTS, len(layers))
        initiates = sorted(self._layers_after(_INITIATES, len(layers)))
        layers = list(layers)
        for before, i in zip([-1, *initiates], initiates, strict=False):
            first = max((layer for layer in checkpoints if layer <= i), default=-1)
            if first == i or first <= before:
                raise self._wrong(
                    f"layer {i} initiates what is computed again, and "
                    + (
                        "is a checkpoint itself"
                        if first == i
                        else "no checkpoint is before it"
                        if first < 0
                        else f"layer {before} does between it and its checkpoint, layer {first}"
                    ),
                    "a checkpoint, some layers, and the layer that initiates, each from 0",
                )
            layers[i] = replace(layers[i], again=first)
        return layers

    def _last_bottom(self, n: int) -> int:
        if _BOTTOM not in self._lower:
            raise self._wrong(
                "which is the last bottom layer is not said",
                f"{self._words[0]} DLRM_LAST_BOTTOM_LAYER: N",
            )
        last = self._number_after(_BOTTOM)
        if last >= n - 1:
            raise self._wrong(
                f"no layer follows the last bottom layer, {last}, of {n}",
                "the number of a layer, from 0; the top layers come after it",
            )
        return last

    def _benchmark(self, layers: Sequence[Layer]) -> Layer:
        first = layers[0]
        if len(layers) > 1 or first.weight_grad.communication is None:
            raise self._wrong(
                "MICRO runs the weight-gradient collective of a single layer, and the file has "
                + (f"{len(layers)} layers" if len(layers) > 1 else "none"),
                "one layer, with a collective in its columns of weight gradients",
            )
        return Layer(first.name, weight_grad=Pass(communication=first.weight_grad.communication))

    def _layers_after(self, label: str, n: int) -> set[int]:
        """The numbers of layers behind ``label`` and how many they are."""
        count = self._number_after(label)
        place = self._lower.index(label) + 2
        words = self._words[place : place + count]
        numbers = {int(word) for word in words if _is_number(word)}
        if len(words) < count or len(numbers) < count or any(layer >= n for layer in numbers):
            raise self._wrong(
                f"{label} {count} is not followed by as many different layers of {n}",
                f"{label} n LAYER..., from 0 to {n - 1}",
            )
        return numbers

    def _number_after(self, label: str) -> int:
        place = self._lower.index(label) + 1 if label in self._lower else len(self._words)
        if place == len(self._words) or not _is_number(self._words[place]):
            said = label if label not in self._lower else self._words[place - 1]
            raise self._wrong(f"no number follows {said}", f"{said} N")
        return int(self._words[place])

    def _wrong(self, what: str, hint: str) -> DimsweepError:
        return DimsweepError(what, where=self._where, hint=hint)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10
