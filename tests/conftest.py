"""What all tests share."""

from hypothesis import settings

# The same examples on every machine, and no verdict on how long one takes.
settings.register_profile("dimsweep", deadline=None, derandomize=True)
settings.load_profile("dimsweep")
