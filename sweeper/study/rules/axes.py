"""Axes of a parallel plan that a map on the command line leaves as the preset has them."""

from collections.abc import Mapping
from typing import Any

from dimsweep.sweeper.config.compose import Composed

_KEY = "workload.parallel"


def kept_axes(composed: Composed) -> list[str]:
    """Told where a map of axes was given whole, and the plan has others, or another order.

    Hydra merges a map into the one that is there, which is what overrides of single keys and
    files rely on; but the order of axes has a meaning, and an axis that is not named takes ranks.
    """
    given, axes = composed.given(_KEY), composed.config.workload.parallel
    if not isinstance(given, Mapping):
        return []
    kept = [axis for axis, degree in axes.items() if axis not in given and degree != 1]
    if not kept and list(given) == [axis for axis in axes if axis in given]:
        return []
    merged = f"{_KEY} is {_text(axes)}: a map is merged into the preset's"
    if not kept:
        return [f"{merged}, whose order of axes stays"]
    drops = " ".join(f"'~{_KEY}.{axis}'" for axis in kept)
    return [f"{merged}, which keeps its {' and '.join(kept)} unless you give {drops}, too"]


def _text(axes: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{axis}: {degree}" for axis, degree in axes.items()) + "}"
