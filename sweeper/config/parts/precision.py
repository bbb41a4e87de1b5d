"""Number formats that models are trained in."""

from typing import NamedTuple


class Precision(NamedTuple):
    """Bytes of a weight or activation, and of a gradient where the plan does not say;
    ``arithmetic`` is that of all that is no linear layer.  Where linear layers are ``narrow``er,
    their factors alone are: weights, activations and messages stay as wide as ``value`` while
    training, and ``stored`` is what a weight takes that is only read (serving)."""

    value: float
    gradient: float
    arithmetic: str
    narrow: str = ""
    stored: float = 2.0


PRECISIONS = {
    "fp32": Precision(4.0, 4.0, "fp32", stored=4.0),
    # Tensor cores round the factors; everything is as wide as in fp32.
    "tf32": Precision(4.0, 4.0, "tf32", stored=4.0),
    "fp16": Precision(2.0, 2.0, "fp16"),
    "bf16": Precision(2.0, 2.0, "bf16"),
    # Factors quantised to whole numbers (AQT on TPUs).
    "int8": Precision(2.0, 2.0, "bf16", "int8", 1.0),
    "fp8": Precision(2.0, 2.0, "bf16", "fp8", 1.0),
    "fp8_block": Precision(2.0, 2.0, "bf16", "fp8_block", 1.0),
    "mxfp8": Precision(2.0, 2.0, "bf16", "mxfp8", 1.0),
    "nvfp4": Precision(2.0, 2.0, "bf16", "nvfp4", 0.5),
}
