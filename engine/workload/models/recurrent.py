"""GNMT: a translation model of LSTM layers."""

from dataclasses import dataclass

from dimsweep.engine.settings import Count, check_settings
from dimsweep.engine.workload.models.model import (
    LayerBlock,
    Model,
    RankModel,
    Shard,
    Step,
    elementwise,
    linear,
    product,
    refuse,
)


@dataclass(frozen=True)
class Gnmt(Model):
    """Wu et al., "Google's neural machine translation system" (2016).

    The encoder has ``layers`` LSTM layers; the first reads in both directions. The decoder has as
    many, and attends to the encoder's output at each of its ``sequence`` steps.
    """

    #: Features of a layer.
    hidden: Count = 1024
    #: LSTM layers of the encoder, and of the decoder.
    layers: Count = 8
    #: Steps of a sequence.
    sequence: Count = 50
    #: Tokens of the vocabulary.
    vocabulary: Count = 32000

    def __post_init__(self) -> None:
        check_settings(self)

    def for_rank(self, shard: Shard) -> RankModel:
        """Return the model as one rank runs it: data-parallel, perhaps in a pipeline."""
        refuse(shard, "GNMT", ("tensor", "context", "expert"))
        h, tokens, value = self.hidden, shard.batch * self.sequence, shard.value
        looked_up = elementwise("embedding", 6 * value * tokens * h)
        front = LayerBlock(
            "embedding",
            (looked_up,),
            (looked_up,),
            parameters=2 * self.vocabulary * h,
            output=value * tokens * h,
        )
        both_ways = self._lstm(shard, "encoder 1", h)
        first = LayerBlock(
            "encoder 1",
            both_ways.forward * 2,
            both_ways.backward * 2,
            parameters=2 * both_ways.parameters,
            activations=2 * both_ways.activations,
            output=2 * both_ways.output,
        )
        encoder = [
            self._lstm(shard, f"encoder {i + 2}", 2 * h if i == 0 else h)
            for i in range(self.layers - 1)
        ]
        # From the second layer on, the decoder reads the attention's result as well.
        decoder = [
            self._lstm(shard, f"decoder {i + 1}", 2 * h, attends=i == 0) for i in range(self.layers)
        ]
        logits = linear("logits", tokens, h, self.vocabulary, value)
        loss = elementwise("loss", (value + 4) * tokens * self.vocabulary)
        back = LayerBlock(
            "logits",
            (logits[0], loss),
            (loss, logits[1], logits[2]),
            parameters=(h + 1) * self.vocabulary,
            activations=value * tokens * (h + self.vocabulary),
        )
        return RankModel((front,), (first, *encoder, *decoder), (back,))

    def _lstm(self, shard: Shard, name: str, inputs: int, *, attends: bool = False) -> LayerBlock:
        """Return an LSTM layer: one product of all inputs, and a product of the state in each step.

        An input has ``inputs`` features. With ``attends`` each step attends to the encoder's
        output.
        """
        h, batch, steps, value = self.hidden, shard.batch, self.sequence, shard.value
        tokens = batch * steps
        inside = linear(f"{name} input", tokens, inputs, 4 * h, value)
        state, state_grad, weight_grad = linear(f"{name} state", batch, h, 4 * h, value)
        gates = elementwise(f"{name} gates", value * batch * 8 * h)
        forward: list[Step] = [inside[0], *(state, gates) * steps]
        backward: list[Step] = [
            *(gates, state_grad) * steps,
            weight_grad._replace(
                flops=weight_grad.flops * steps, n_bytes=value * (5 * h * tokens + 4 * h * h)
            ),
            *inside[1:],
        ]
        if attends:
            scores = product(f"{name} attention", batch, steps, h, steps, value)
            forward += [scores, scores]
            backward = [scores] * 4 + backward
        return LayerBlock(
            name,
            tuple(forward),
            tuple(backward),
            parameters=4 * h * (inputs + h + 2),
            activations=value * tokens * (inputs + 6 * h),
            output=value * tokens * h,
        )
