"""``dimsweep verify NAME``: published measurements against what we say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from engine import DimsweepError
from sweeper.verify.megatron import verify_megatron

STUDIES: dict[str, Callable[[Console], int]] = {"megatron": verify_megatron}


def verify(words: Sequence[str], console: Console) -> int:
    """Run one verification; returns the exit code, 1 when it misses its aim."""
    if len(words) != 1 or words[0] not in STUDIES:
        raise DimsweepError(
            f"verify what? {' '.join(words)}".rstrip(), hint=f"there are: {', '.join(STUDIES)}"
        )
    return STUDIES[words[0]](console)
