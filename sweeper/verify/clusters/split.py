"""Which documents the model's constants were fitted to; every other one is unfitted.

A constant may be fitted to these only, and a document that is added here was looked at.
"""

FITTED: tuple[str, ...] = (
    # conf/npu/a100.yaml: the eight times of `dimsweep verify megatron` and nothing of these tables.
)


def is_fitted(origin: str) -> bool:
    """Whether constants were fitted to this document's rows."""
    return any(origin.startswith(document) for document in FITTED)
