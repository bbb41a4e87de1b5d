"""How many random examples a property is tried with."""

import os

from hypothesis import settings

# make test EXAMPLES=10 tries ten times as many, and others than the last time.
TIMES = int(os.environ.get("EXAMPLES", "1"))


def examples(n: int) -> settings:
    """Try a property with ``n`` examples: as many as are known to find bugs in a second or two."""
    return settings(max_examples=n * TIMES)
