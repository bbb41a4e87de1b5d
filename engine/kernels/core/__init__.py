"""What all compiled kernels are made of: state by reference, queues, numbers that stand for none."""
