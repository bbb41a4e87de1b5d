"""Lowering of a workload and a cluster to a program of flat arrays."""
