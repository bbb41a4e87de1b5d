"""What all compiled kernels are made of: queues, numbers for none, state by reference."""
