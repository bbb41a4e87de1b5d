"""How large the graphs of a workload will be, estimated before anything of them is built."""

from dimsweep.engine import DimsweepError

# Of GPT-3 175B in 8 interleaved stages, counted and weighed with 8 to 2,048 micro-batches: 24 to 26
# nodes for each layer and micro-batch, and 300 to 320 bytes for each node while it is lowered.
_NODES, _BYTES = 25, 320
LARGEST = 20_000_000  # nodes, of all pipeline stages together


def check_size(layers: int, micro_batches: int = 1) -> None:
    """Raises :class:`DimsweepError` if a model of ``layers`` over ``micro_batches`` has a graph of
    more than :data:`LARGEST` nodes."""
    nodes = layers * micro_batches * _NODES
    if nodes <= LARGEST:
        return
    raise DimsweepError(
        f"its graph would have about {nodes:.2g} nodes and take {nodes * _BYTES / 1e9:.2g} GB: "
        f"{layers} layers, {micro_batches} micro-batches in turn",
        hint=f"at most {LARGEST:,} nodes are built: fewer layers, or a larger plan.micro_batch",
    )
