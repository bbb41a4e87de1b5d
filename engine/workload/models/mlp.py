"""The feed-forward network: two matrices, or three when gated."""

from dimsweep.engine.workload.models.parallel import Region
from dimsweep.engine.workload.models.rank import LayerBlock, Module
from dimsweep.engine.workload.models.shape import TransformerShape
from dimsweep.engine.workload.models.steps import Step, elementwise


def block(model: TransformerShape, r: Region) -> LayerBlock:
    """The feed-forward half of a layer on one rank."""
    value, tokens, inner = r.value, r.tokens, model.inner // r.shard.tensor
    first = inner * (2 if model.gated else 1)
    one = r.linear("mlp 1", tokens, model.hidden, first)
    two = r.linear("mlp 2", tokens, inner, model.hidden)
    norm, norm_back = r.norm("mlp norm")
    residual, residual_back = r.residual("mlp", dropout=model.dropout, bias=model.bias)
    activated = elementwise("activation", value * tokens * (first + inner))
    activated_back = elementwise("activation input_grad", value * tokens * (2 * first + inner))
    forward: tuple[Step, ...] = (
        norm,
        *r.column(one),
        activated,
        *r.row(two),
        residual,
    )
    backward: tuple[Step, ...] = (
        residual_back,
        *r.row_backward(two),
        activated_back,
        *r.column_backward(one),
        norm_back,
    )
    biases = first + model.hidden if model.bias else 0
    norms = model.hidden * (2 if model.bias else 1)
    norm_again, act_again = r.shard.again(Module.NORM), r.shard.again(Module.ACTIVATION)
    half_again = model.gated and r.shard.again(Module.LINEAR)
    half = r.linear("mlp 1 half", tokens, model.hidden, inner).forward * half_again
    made_again = r.part * norm_again + value * tokens * inner * (act_again + half_again)
    return LayerBlock(
        "mlp",
        forward,
        backward,
        again=(norm,) * norm_again + half + (activated,) * act_again,
        parameters=model.hidden * (first + inner) + biases + norms,
        activations=(
            2 * r.part
            + value * tokens * (first + inner)
            + (r.rows * model.hidden if model.dropout else 0)
            - made_again
        ),
        transient=r.passing + value * tokens * (first + inner) + made_again,
    )
