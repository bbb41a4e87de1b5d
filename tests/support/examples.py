"""How many random examples a property is tried with."""

import os

from hypothesis import settings

# make test tries two fifths of what a property names, always the same.  EXAMPLES=1 tries all, and
# EXAMPLES=10 ten times as many, others than the last time.
TIMES = float(os.environ.get("EXAMPLES", "0.4"))


def examples(n: int) -> settings:
    """Try a property with ``n`` examples: as many as are known to find bugs in a second or two."""
    return settings(max_examples=times(n))


def times(n: int) -> int:
    """As many of ``n`` examples as are wanted, one at least."""
    return max(round(n * TIMES), 1)
