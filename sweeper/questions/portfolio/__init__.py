"""One split, or one network, for several workloads."""
