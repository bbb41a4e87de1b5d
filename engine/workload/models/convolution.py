"""Convolutional networks (residual networks and VGG), as blocks of kernels with their shapes."""

from collections.abc import Iterator
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.workload.models.model import (
    LayerBlock,
    Model,
    RankModel,
    Shard,
    elementwise,
    join_blocks,
    linear,
    refuse,
)

# He et al., "Deep residual learning" (CVPR 2016), table 1; Simonyan and Zisserman (ICLR 2015),
# table 1, configuration D.
_RESNET = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)


@dataclass(frozen=True)
class ConvNet(Model):
    """The network ``resnet50``, ``resnet101``, ``resnet152`` or ``vgg16`` for square images.

    Images have ``image`` x ``image`` pixels and ``classes``.
    """

    network_name: str
    image: int = 224
    classes: int = 1000

    def __post_init__(self) -> None:
        known = [f"resnet{depth}" for depth in _RESNET] + ["vgg16"]
        if self.network_name not in known:
            raise DimsweepError(
                f"unknown network {self.network_name!r}",
                where="network_name",
                code="unknown-name",
                hint=f"known: {', '.join(known)}",
            )
        if self.image < 32 or self.image % 32:
            raise DimsweepError(
                f"{self.image} pixels; it must be a multiple of 32",
                where="image",
                hint="the network halves an image five times",
                code="mismatch",
            )

    def for_rank(self, shard: Shard) -> RankModel:
        """Return the model as one rank runs it: data-parallel, perhaps in a pipeline."""
        refuse(shard, "a convolutional network", ("tensor", "context", "expert"))
        vgg = self.network_name == "vgg16"
        layers = tuple(self._vgg(shard) if vgg else self._resnet(shard))
        head: tuple[LayerBlock, ...]
        if vgg:
            head = (
                _dense_layer(shard, "fc1", 512 * (self.image // 32) ** 2, 4096),
                _dense_layer(shard, "fc2", 4096, 4096),
                _dense_layer(shard, "fc3", 4096, self.classes),
            )
        else:
            head = (_dense_layer(shard, "fc", 2048, self.classes),)
        front = () if vgg else (self._stem(shard),)
        return RankModel(front, layers, head)

    def _stem(self, shard: Shard) -> LayerBlock:
        side = self.image // 2
        pooled = elementwise("pool", shard.value * shard.batch * 64 * side**2 * 1.25)
        stem = _convolution(shard, "conv1", 3, 64, 7, side, normed=True)
        return LayerBlock(
            "stem",
            (*stem.forward, pooled),
            (pooled, *stem.backward),
            parameters=stem.parameters,
            activations=stem.activations,
            output=shard.value * shard.batch * 64 * (side // 2) ** 2,
        )

    def _resnet(self, shard: Shard) -> Iterator[LayerBlock]:
        depth = int(self.network_name.removeprefix("resnet"))
        inputs, side = 64, self.image // 4
        for stage, repeat in enumerate(_RESNET[depth]):
            width = 64 << stage
            for i in range(repeat):
                if i == 0 and stage:
                    side //= 2
                parts = [
                    # The first one still sees the larger image; the second one halves it.
                    _convolution(
                        shard, "1x1", inputs, width, 1, side * (2 if i == 0 and stage else 1)
                    ),
                    _convolution(shard, "3x3", width, width, 3, side),
                    _convolution(shard, "1x1 out", width, 4 * width, 1, side),
                ]
                if i == 0:
                    parts.append(_convolution(shard, "shortcut", inputs, 4 * width, 1, side))
                inputs = 4 * width
                output = shard.value * shard.batch * inputs * side**2
                yield join_blocks(f"stage {stage + 1} block {i + 1}", parts, output)

    def _vgg(self, shard: Shard) -> Iterator[LayerBlock]:
        inputs, side = 3, self.image
        for width in _VGG16:
            if width == 0:
                side //= 2
                continue
            yield _convolution(shard, f"conv {width}", inputs, width, 3, side, normed=False)
            inputs = width


def _convolution(
    shard: Shard,
    name: str,
    inputs: int,
    outputs: int,
    kernel: int,
    side: int,
    *,
    normed: bool = True,
) -> LayerBlock:
    """Return a block: a convolution whose output has ``side`` x ``side`` pixels, norm and ReLU."""
    pixels, value = shard.batch * side**2, shard.value
    forward, input_grad, weight_grad = linear(name, pixels, inputs * kernel**2, outputs, value)
    # The product's operand is read from the image itself, not from kernel^2 copies of it.
    image = value * pixels * (inputs + outputs) + value * inputs * kernel**2 * outputs
    forward, input_grad, weight_grad = (
        k._replace(n_bytes=image) for k in (forward, input_grad, weight_grad)
    )
    passes = 4 if normed else 2
    size = value * pixels * outputs
    after = elementwise(f"{name} activation", passes * size)
    after_back = elementwise(f"{name} activation input_grad", (passes + 1) * size)
    return LayerBlock(
        name,
        (forward, after),
        (after_back, input_grad, weight_grad),
        parameters=inputs * kernel**2 * outputs + (2 * outputs if normed else outputs),
        activations=value * pixels * inputs + size * (2 if normed else 1),
        output=size,
    )


def _dense_layer(shard: Shard, name: str, inputs: int, outputs: int) -> LayerBlock:
    forward, input_grad, weight_grad = linear(name, shard.batch, inputs, outputs, shard.value)
    return LayerBlock(
        name,
        (forward,),
        (input_grad, weight_grad),
        parameters=(inputs + 1) * outputs,
        activations=shard.value * shard.batch * inputs,
        output=shard.value * shard.batch * outputs,
    )
