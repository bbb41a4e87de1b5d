"""Event kernels: they execute a program."""
