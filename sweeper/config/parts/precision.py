"""Number formats that models are trained in."""

# Bytes of a weight or activation, and of a gradient where the plan does not say.
PRECISIONS = {"fp32": (4.0, 4.0), "fp16": (2.0, 2.0), "bf16": (2.0, 2.0), "fp8": (1.0, 2.0)}
