"""NCCL: which algorithm and protocol it chooses, and what that takes."""
