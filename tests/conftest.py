"""What all tests share."""

from hypothesis import settings

from tests.support.examples import TIMES, times

# The same examples on every machine, unless more are asked for, and no verdict on how long one
# takes.
settings.register_profile("dimsweep", max_examples=times(50), deadline=None, derandomize=TIMES <= 1)
settings.load_profile("dimsweep")
