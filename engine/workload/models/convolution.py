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
    """A residual network or VGG for square images."""

    #: The network: `resnet50`, `resnet101`, `resnet152` or `vgg16`.
    network_name: str
    #: Pixels of an image's side.
    image: int = 224
    #: Classes of images.
    classes: int = 1000
    #: Whether one kernel of a residual network computes a convolution, the norm and ReLU of its
    #: input, and the statistics of its output, forward and backward (cuDNN's fusions, which
    #: MLPerf's `MXNET_FUSE_CONV_BN_RELU` switches on).
    fused: bool = False

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
        stem = _convolution(shard, "conv1", 3, 64, 7, side, self._passes(added=False))
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
        inner, last = self._passes(added=False), self._passes(added=True)
        inputs, side = 64, self.image // 4
        for stage, repeat in enumerate(_RESNET[depth]):
            width = 64 << stage
            for i in range(repeat):
                before = side
                if i == 0 and stage:
                    side //= 2
                parts = [
                    # The first one still sees the larger image; the second one halves it.
                    _convolution(shard, "1x1", inputs, width, 1, before, inner),
                    _convolution(shard, "3x3", width, width, 3, side, inner),
                    _convolution(shard, "1x1 out", width, 4 * width, 1, side, last),
                ]
                if i == 0:
                    parts.append(_convolution(shard, "shortcut", inputs, 4 * width, 1, side, inner))
                inputs = 4 * width
                output = shard.value * shard.batch * inputs * side**2
                yield join_blocks(f"stage {stage + 1} block {i + 1}", parts, output)

    def _passes(self, *, added: bool) -> tuple[int, int]:
        """Return how often norm and ReLU pass over a convolution's output, forward and backward.

        ``added`` says that the block's shortcut is added before the ReLU.

        With fused kernels, the next convolution normalises the output while it reads it.  Only at
        the end of a block are output and shortcut read and their sum written.  In the backward
        pass, the product that computes the gradient reads the norm's input, masks the gradient,
        sums up the gradients of the norm's weights and adds the shortcut's gradient.  Another
        kernel reads the gradient and the norm's input, and writes the output's gradient.
        """
        if not self.fused:
            return 4, 5
        return (3, 5) if added else (0, 4)

    def _vgg(self, shard: Shard) -> Iterator[LayerBlock]:
        inputs, side = 3, self.image
        for width in _VGG16:
            if width == 0:
                side //= 2
                continue
            yield _convolution(shard, f"conv {width}", inputs, width, 3, side)
            inputs = width


def _convolution(
    shard: Shard,
    name: str,
    inputs: int,
    outputs: int,
    kernel: int,
    side: int,
    norm: tuple[int, int] | None = None,
) -> LayerBlock:
    """Return a convolution whose output has ``side`` x ``side`` pixels, with its norm and ReLU.

    ``norm`` has the passes over the output of norm and ReLU, forward and backward; without a norm
    it is None.
    """
    pixels, value = shard.batch * side**2, shard.value
    forward, input_grad, weight_grad = linear(name, pixels, inputs * kernel**2, outputs, value)
    # The product's operand is read from the image itself, not from kernel^2 copies of it.
    image = value * pixels * (inputs + outputs) + value * inputs * kernel**2 * outputs
    forward, input_grad, weight_grad = (
        k._replace(n_bytes=image) for k in (forward, input_grad, weight_grad)
    )
    passes, passes_back = norm or (2, 3)
    size = value * pixels * outputs
    after = elementwise(f"{name} activation", passes * size)
    after_back = elementwise(f"{name} activation input_grad", passes_back * size)
    return LayerBlock(
        name,
        (forward, after) if passes else (forward,),
        (after_back, input_grad, weight_grad),
        parameters=inputs * kernel**2 * outputs + (2 * outputs if norm else outputs),
        activations=value * pixels * inputs + size * (2 if norm and passes else 1),
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
