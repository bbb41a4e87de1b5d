"""Search one bandwidth split, or one network, for several workloads (a portfolio)."""
