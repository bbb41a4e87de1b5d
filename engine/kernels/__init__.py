"""Event kernels: the compiled simulators that execute a program, at several levels of detail."""
