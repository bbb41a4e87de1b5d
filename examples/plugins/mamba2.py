"""Mamba-2: layers of structured state spaces (Dao and Gu, "Transformers are SSMs", ICML 2024).

A workload's file, such as conf/workload/mamba2.yaml, and how to simulate it:

    defaults: [kind/model, _self_]
    name: Mamba-2 2.7B
    parallel: {data: rest}
    model: {family: mamba2}
    plan: {batch: 256}

    dimsweep simulate plugins=examples/plugins/mamba2.py workload=mamba2
"""

from dataclasses import dataclass

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import check_minimum
from dimsweep.engine.workload.models import LayerBlock, Model, RankModel, Shard, refuse
from dimsweep.engine.workload.models.model import Step, Task, elementwise, linear, product
from dimsweep.sweeper.config.workload.model import FAMILIES


@dataclass(frozen=True)
class Mamba2(Model):
    """The defaults are the published model of 2.7 billion parameters.  ``state`` features of each
    of the heads of ``head`` channels; ``expand`` times as many channels as ``hidden`` features;
    heads share ``groups`` of input and output projections of the state; the sequence is worked
    through in chunks of ``chunk`` tokens."""

    hidden: int = 2560
    layers: int = 64
    sequence: int = 2048
    vocabulary: int = 50288
    state: int = 128
    head: int = 64
    expand: int = 2
    groups: int = 1
    convolution: int = 4
    chunk: int = 256

    def __post_init__(self) -> None:
        check_minimum(self, 1, *self.__dataclass_fields__)
        if self.inner % self.head:
            what = f"{self.inner} channels do not divide into heads of {self.head}"
            raise DimsweepError(what, where="head")

    @property
    def inner(self) -> int:
        """The channels of a layer."""
        return self.expand * self.hidden

    @property
    def heads(self) -> int:
        """The heads of a layer."""
        return self.inner // self.head

    @property
    def mixed(self) -> int:
        """The channels that the convolution mixes: inputs, and projections into and out of the
        state."""
        return self.inner + 2 * self.groups * self.state

    def for_rank(self, shard: Shard) -> RankModel:
        """The model as one rank runs it: data-parallel, perhaps in a pipeline."""
        refuse(shard, "Mamba-2", ("tensor", "context", "expert"))
        if shard.task is not Task.TRAINING:
            raise DimsweepError("Mamba-2 is trained here, not served", where="plan.task")
        tokens, value = shard.batch * self.sequence, shard.value
        output = value * tokens * self.hidden
        looked_up = elementwise("embedding", 2 * output)
        logits = linear("logits", tokens, self.hidden, self.vocabulary, value)
        loss = elementwise("loss", (value + 4) * tokens * self.vocabulary)
        table = self.vocabulary * self.hidden
        front = LayerBlock("embedding", (looked_up,), (looked_up,), parameters=table, output=output)
        back = LayerBlock(
            "logits",
            (logits[0], loss),
            (loss, *logits[1:]),
            parameters=self.hidden,
            activations=value * tokens * (self.hidden + self.vocabulary),
        )
        return RankModel((front,), (self._layer(shard),) * self.layers, (back,), tied=table)

    def _layer(self, shard: Shard) -> LayerBlock:
        tokens, value = shard.batch * self.sequence, shard.value
        first = self.inner + self.mixed + self.heads
        into = linear("in", tokens, self.hidden, first, value)
        out = linear("out", tokens, self.inner, self.hidden, value)
        mixing = elementwise("convolution", 2 * value * tokens * self.mixed)
        norm = elementwise("norm", 2 * value * tokens * self.hidden)
        gate = elementwise("gated norm", 3 * value * tokens * self.inner)
        core = self._core(shard)
        again = tuple(step for step in core for _ in range(2))  # a gradient of either factor
        return LayerBlock(
            "mamba2",
            (norm, into[0], mixing, *core, gate, out[0]),
            (*out[1:], gate, *again, mixing, *into[1:], norm),
            parameters=self._parameters,
            activations=value * tokens * (self.hidden + first + self.mixed + 2 * self.inner),
            output=value * tokens * self.hidden,
        )

    def _core(self, shard: Shard) -> tuple[Step, ...]:
        """The chunks' own products, their states, and what earlier states add (listing 1)."""
        chunk = min(self.chunk, self.sequence)
        chunks, value = shard.batch * -(-self.sequence // chunk), shard.value
        per_head = chunks * self.heads
        states = per_head * self.head * self.state
        return (
            product("scores", chunks * self.groups, chunk, self.state, chunk, value),
            product("inside chunks", per_head, chunk, chunk, self.head, value),
            product("states", per_head, self.state, chunk, self.head, value),
            elementwise("states passed on", 2 * value * states),
            product("from states", per_head, chunk, self.state, self.head, value),
        )

    @property
    def _parameters(self) -> int:
        into = self.hidden * (self.inner + self.mixed + self.heads)
        mixing = self.mixed * (self.convolution + 1)
        return into + mixing + 3 * self.heads + self.inner * (self.hidden + 1) + self.hidden


FAMILIES["mamba2"] = Mamba2
