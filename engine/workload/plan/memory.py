"""Peak memory of a rank: weights, gradients, optimizer state and activations.

The account follows Rajbhandari et al., "ZeRO" (SC 2020), and Korthikanti et al. (MLSys 2023), with
the buffers of a block's backward pass. `dimsweep verify clusters simumax_b200` compares it with the
measured memory of Megatron-LM.
"""

from collections.abc import Sequence

from dimsweep.engine.workload.graph import Footprint
from dimsweep.engine.workload.models.model import LayerBlock
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, DeviceMesh
from dimsweep.engine.workload.plan.plan import Held, Offload, ParallelPlan
from dimsweep.engine.workload.plan.schedule import Action, n_passes, pair_actions
from dimsweep.engine.workload.plan.stages import Stage

# Workspace of cuBLAS on Hopper and later (PyTorch's getChosenWorkspaceSize).
WORKSPACE = 32 * 2.0**20
PIECES = 32  # pieces in which offloaded optimizer state is loaded and stored


def footprint(
    stage: Stage, plan: ParallelPlan, mesh: DeviceMesh, order: Sequence[Action]
) -> Footprint:
    """Return the memory of a rank of ``stage`` at its peak, in bytes, by kind of content.

    ``order`` lists the forward and backward passes of the stage.
    """
    n, n_expert = mesh.degree(mesh.shard_axis), mesh.degree(EXPERT_REPLICAS)
    copies = ((stage.parameters, n), (stage.expert_parameters, n_expert))
    micro_batches = n_passes(order) // len(stage.chunks)
    summed = ((stage.parameters, n), (stage.reached_parameters(micro_batches * n_expert), n_expert))

    def held(bytes_each: float, *, cut: bool, of: Sequence[tuple[float, int]] = copies) -> float:
        return sum(p * bytes_each / (n if cut else 1) for p, n in of)

    activations, transient, peak = _find_peak(stage, plan, mesh, order)
    here = {
        Offload.OPTIMIZER: held(state_bytes(plan), cut=plan.zero >= 1),
        Offload.ACTIVATIONS: activations,
        Offload.WEIGHTS: held(plan.value, cut=plan.zero >= 3),
    }
    away = {what: here[what] for what in plan.offload}
    for what in away:
        # The bytes in use, and the bytes that arrive meanwhile.
        here[what] = min(here[what], 2 * _transfer_unit(what, stage, here[what]))
    gradients = held(plan.gradient_value, cut=plan.zero >= 2, of=summed)
    stored = 0.0
    if plan.reduces_on_store:  # gradients that other ranks hold in part
        stored = sum(p * plan.gradient_value / n for p, n in summed if n > 1)
    return Footprint(
        stage=stage.number,
        weights=here[Offload.WEIGHTS],
        gradients=gradients - stored,
        optimizer=here[Offload.OPTIMIZER],
        activations=here[Offload.ACTIVATIONS],
        transient=transient,
        buffers=_buffer_bytes(stage, plan, held(1.0, cut=plan.zero >= 1)),
        peak=peak,
        remote=sum(away.values()) + stored,
    )


def _buffer_bytes(stage: Stage, plan: ParallelPlan, updated: float) -> float:
    """Return the bytes of the training framework's buffers, and of eager PyTorch's gradients.

    ``updated`` is the number of parameters that the rank updates. PyTorch's DistributedDataParallel
    copies gradients into buckets as large as all of them (``gradient_as_bucket_view``, off by
    default).
    """
    waiting = plan.value * (stage.parameters + stage.expert_parameters) if plan.eager else 0.0
    return plan.stack.flat_buffers(_held_values(stage, plan, updated)) + waiting


def _held_values(stage: Stage, plan: ParallelPlan, updated: float) -> Held:
    blocks = [block for chunk in stage.chunks for block in chunk]
    return Held(
        parameters=stage.parameters + stage.expert_parameters,
        largest=max(block.parameters + block.expert_parameters for block in blocks),
        updated=updated,
        is_cut=plan.zero >= 1,
        value=plan.value,
        gradient=plan.gradient_value,
    )


def _transfer_unit(what: Offload, stage: Stage, whole: float) -> float:
    """Return the bytes that are moved at once when ``whole`` bytes of ``what`` are offloaded."""
    blocks = [block for chunk in stage.chunks for block in chunk]
    if what is Offload.OPTIMIZER:
        return whole / PIECES
    if what is Offload.ACTIVATIONS:
        return max(block.activations for block in blocks)
    sizes = [block.parameters + block.expert_parameters for block in blocks]
    return whole * max(sizes) / sum(sizes)


def state_bytes(plan: ParallelPlan) -> float:
    """Return the bytes of optimizer state for each parameter.

    The state consists of fp32 moments, and a master copy of weights narrower than fp32.
    """
    return 4.0 * (plan.optimizer.moments + plan.has_master_copy)


def _find_peak(
    stage: Stage, plan: ParallelPlan, mesh: DeviceMesh, order: Sequence[Action]
) -> tuple[float, float, str]:
    """Return the activations and transient bytes at the stage's memory peak, and its time."""
    kept = [sum(block.activations for block in chunk) for chunk in stage.chunks]
    passing = [find_buffer_bytes(chunk, plan, mesh) for chunk in stage.chunks]
    buffer = max(block.gradient_buffer for chunk in stage.chunks for block in chunk)
    held, worst = 0.0, (0.0, 0.0, "nothing runs")
    starts = [action for pair in pair_actions(order, plan.overlap_experts) for action in pair[::-1]]
    for action in starts:
        if not action.backward:
            held += kept[action.chunk]
        transient = passing[action.chunk] + buffer + WORKSPACE
        if held + transient > worst[0] + worst[1]:
            what = "backward" if action.backward else "forward"
            worst = (held, transient, f"{what}, micro-batch {action.micro_batch}")
            if len(stage.chunks) > 1:
                worst = (*worst[:2], f"{worst[2]}, chunk {action.chunk}")
        if action.ends:
            held -= kept[action.chunk]
    return worst


def find_buffer_bytes(chunk: Sequence[LayerBlock], plan: ParallelPlan, mesh: DeviceMesh) -> float:
    """Return the largest transient bytes in a chunk's backward pass, less freed activations."""
    freed, worst = 0.0, 0.0
    for block in reversed(chunk):
        worst = max(worst, _transient_bytes(block, plan, mesh) - freed)
        freed += block.activations
    return worst


def _transient_bytes(block: LayerBlock, plan: ParallelPlan, mesh: DeviceMesh) -> float:
    gathered = 0.0
    if plan.zero == 3:
        # The weights of the block, and the weights of the next block, gathered in advance.
        for parameters, axis in (
            (block.parameters, mesh.shard_axis),
            (block.expert_parameters, EXPERT_REPLICAS),
        ):
            if mesh.degree(axis) > 1:
                gathered += 2 * parameters * plan.value
    return block.transient + gathered
