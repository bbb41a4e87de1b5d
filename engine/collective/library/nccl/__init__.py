"""NVIDIA's NCCL: its choice of algorithm and protocol, and the resulting time of a collective."""
